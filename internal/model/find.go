package model

import "strings"

// HostsFor lists the Hosts that fit a request's Host or :authority, the most specific first: the name
// itself, the wildcards above it, and AnyHost. Port, letter case and one trailing dot don't count.
func HostsFor(authority string) []Host {
	name, _, _ := strings.Cut(authority, ":")
	name = strings.Map(lowerASCII, strings.TrimSuffix(name, "."))
	var hosts []Host
	if name != "" && Host(name).IsExact() {
		hosts = append(hosts, Host(name))
	}
	for i, c := range []byte(name) {
		if c == '.' && i > 0 {
			hosts = append(hosts, Host("*"+name[i:]))
		}
	}
	return append(hosts, AnyHost)
}

// Fits says whether a request for the Match's host is one of its requests. path has no query, and
// header looks a header up, by its name in lower case.
func (m Match) Fits(path string, header func(name string) (value string, present bool)) bool {
	rest, fits := strings.CutPrefix(path, m.PathPrefix)
	if !fits || m.PathPrefix != "/" && rest != "" && rest[0] != '/' {
		return false
	}
	for _, condition := range m.Headers {
		value, present := header(condition.Name)
		if !present || !condition.Any && value != condition.Value {
			return false
		}
	}
	return true
}
