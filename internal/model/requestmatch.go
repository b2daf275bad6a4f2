package model

import "strings"

// HostsFor returns the Hosts that match a request's Host or :authority, the most specific first: the name itself, the
// wildcards above it, and AnyHost. It ignores the port, letter case and one trailing dot. An IPv6 address matches as
// the client spells it.
func HostsFor(authority string) []Host {
	if end := strings.IndexByte(authority, ']'); end > 0 && authority[0] == '[' {
		return []Host{Host(strings.Map(lowerASCII, authority[:end+1])), AnyHost}
	}
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

// Matches reports whether the Match's path and headers match a request for its host. path has no query, and header
// looks up a header by its name in lower case.
func (m Match) Matches(path string, header func(name string) (value string, present bool)) bool {
	rest, ok := strings.CutPrefix(path, m.PathPrefix)
	if !ok || m.PathPrefix != "/" && rest != "" && rest[0] != '/' {
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
