package managedroute

import (
	"regexp/syntax"
	"slices"
	"strings"
)

// What parts of a regular expression add to a program at most, found by comparing with Envoy's own numbers for random ones. The true size is often lower.
const (
	sizeOfAll    = 4 // the beginning and the end
	sizeOfGroup  = 2 // a group that captures
	sizeOfRepeat = 3
	sizeOfBranch = 1 // a branch of a choice
	sizeOfOther  = 2 // any character, or a border

	highestByte = 0xff
)

// programSize is an upper bound for the size of RE2's program for a regular expression in Latin-1, which is how Envoy compiles it; above MaxProgram for what
// Go cannot parse.
//
// Both join branches of a choice, such as a|b to [ab], but Go more of them. With an empty branch between any two it joins none.
func programSize(text string) int {
	apart := strings.NewReplacer(`\\`, `\\`, `\|`, `\|`, `|`, `|(?:)|`).Replace(text)
	parsed, err := syntax.Parse(apart, syntax.Perl)
	if err != nil {
		return MaxProgram + 1
	}
	return sizeOfAll + sizeOf(parsed.Simplify())
}

// sizeOf is an upper bound for one part.
func sizeOf(part *syntax.Regexp) int {
	size := 0
	for _, sub := range part.Sub {
		size += sizeOf(sub)
	}
	switch part.Op {
	case syntax.OpEmptyMatch, syntax.OpConcat:
		return size
	case syntax.OpLiteral:
		return len(string(part.Rune))
	case syntax.OpCharClass:
		return rangesOf(part.Rune)
	case syntax.OpCapture:
		return size + sizeOfGroup
	case syntax.OpQuest:
		return size + sizeOfRepeat
	case syntax.OpStar, syntax.OpPlus:
		if slices.ContainsFunc(part.Sub, hasLoop) {
			size *= 2 // RE2 has what a loop in a loop begins with twice, unless both are greedy.
		}
		return size + sizeOfRepeat
	case syntax.OpAlternate:
		return size + sizeOfBranch*len(part.Sub)
	default:
		return size + sizeOfOther
	}
}

// hasLoop says whether part, or a part of it, is repeated without a limit.
func hasLoop(part *syntax.Regexp) bool {
	return part.Op == syntax.OpStar || part.Op == syntax.OpPlus || slices.ContainsFunc(part.Sub, hasLoop)
}

// rangesOf counts the ranges of a class that a byte can be in.
func rangesOf(bounds []rune) int {
	count := 0
	for i := 0; i+1 < len(bounds); i += 2 {
		if bounds[i] <= highestByte {
			count++
		}
	}
	return count
}
