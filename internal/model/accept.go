package model

import (
	"cmp"
	"regexp"
	"strings"
)

// StaticChoice is a body of a StaticResponse with the condition on the header Accept by which a request gets it.
type StaticChoice struct {
	Body StaticBody
	// Accept is the regular expression that the header must match, and Except the one that it may not match. Both are
	// for the whole value, in RE2, and "" for a request with any header.
	Accept, Except string
}

// Choices returns the bodies of a response in the order in which their conditions apply. Of several ones, a request
// gets the first that its header Accept lists with quality 1, then the first that it lists with another quality above
// 0, or by a range such as text/*, and otherwise the first one. The conditions of the last choice are empty.
//
// A proxy compares no numbers. So of several bodies that a client accepts with qualities below 1, it uses the first.
func (s StaticResponse) Choices() []StaticChoice {
	if len(s.Bodies) == 0 {
		return []StaticChoice{{}}
	}
	if len(s.Bodies) == 1 {
		return []StaticChoice{{Body: s.Bodies[0]}}
	}
	const (
		start = `(?i)(?:.*[, \t])?`
		rest  = `(?:[;, \t].*)?`
		param = `[; \t](?:[^,]*[; \t])?q=0`
	)
	choices := make([]StaticChoice, 0, 2*len(s.Bodies)+1)
	for _, isPreferred := range []bool{true, false} {
		for _, body := range s.Bodies {
			mediaType, _ := MediaType(body.ContentType) // Validate has checked it.
			choice := StaticChoice{Body: body, Accept: start + regexp.QuoteMeta(mediaType) + rest}
			choice.Except = start + regexp.QuoteMeta(mediaType) + param + `.*`
			if !isPreferred {
				main, sub, _ := strings.Cut(mediaType, "/")
				choice.Accept = start + regexp.QuoteMeta(main) + `/(?:` + regexp.QuoteMeta(sub) + `|\*)` + rest
				choice.Except = start + regexp.QuoteMeta(mediaType) + param + `[.0]*` + rest
			}
			choices = append(choices, choice)
		}
	}
	return append(choices, StaticChoice{Body: s.Bodies[0]})
}

// BodyFor returns the body for a request with a header Accept, as Choices describes it.
func (s StaticResponse) BodyFor(accept string) StaticBody {
	if len(s.Bodies) == 0 {
		return StaticBody{}
	}
	for _, isPreferred := range []bool{true, false} {
		for _, body := range s.Bodies {
			if isAccepted(accept, body.ContentType, isPreferred) {
				return body
			}
		}
	}
	return s.Bodies[0]
}

// isAccepted reports whether a header Accept lists a content type: with quality 1 if isPreferred is true, otherwise with
// any quality above 0, or by a range.
func isAccepted(accept, contentType string, isPreferred bool) bool {
	mediaType, _ := MediaType(contentType)
	main, _, _ := strings.Cut(mediaType, "/")
	isListed := false
	for entry := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(entry, ";")
		name = strings.ToLower(strings.Trim(name, " \t"))
		if name == mediaType {
			if quality := qualityOf(params); quality == "0" || isPreferred && quality != "" {
				return false
			}
			isListed = true
		}
		isListed = isListed || !isPreferred && name == main+"/*"
	}
	return isListed
}

// qualityOf returns "" for quality 1, "0" for 0, and "<" for another one. params are the parameters of an entry.
func qualityOf(params string) string {
	found := ""
	for param := range strings.SplitSeq(params, ";") {
		value, isQuality := strings.CutPrefix(strings.ToLower(strings.Trim(param, " \t")), "q=0")
		if !isQuality {
			continue
		}
		if fraction, hasFraction := strings.CutPrefix(value, "."); value == "" ||
			hasFraction && strings.Trim(fraction, "0") == "" {
			return "0"
		}
		found = cmp.Or(found, "<")
	}
	return found
}
