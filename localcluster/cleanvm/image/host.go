package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Debian's archives, unless the host configures others.
const (
	publicMirror   = "http://deb.debian.org/debian"
	publicSecurity = "http://deb.debian.org/debian-security"
)

// network contains the host's settings for package registries. The guest uses the same settings.
type network struct {
	// Mirror and Security are the archives of Debian and of its security updates.
	Mirror, Security string
	// Apt are lines of apt.conf.
	Apt []string
	// Environment are the variables of Go, pip and other programs that use a proxy.
	Environment []string
	// Authorities are certificates that the host trusts in addition to Debian's own: file name to content.
	Authorities map[string]string
}

// hostNetwork reads the host's settings.
func hostNetwork(ctx context.Context) (network, error) {
	n := network{Mirror: publicMirror, Security: publicSecurity, Authorities: map[string]string{}}
	n.readMirrors(ctx)
	config, err := output(ctx, "apt-config", "dump")
	if err != nil {
		return n, fmt.Errorf("read apt's settings: %w", err)
	}
	n.Apt = aptLines(config)
	n.Environment = slices.Concat(proxyVariables(os.Environ()), goVariables(ctx), pipVariables(ctx))
	files, err := filepath.Glob("/usr/local/share/ca-certificates/*.crt")
	if err != nil {
		return n, fmt.Errorf("list the host's certificates: %w", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return n, fmt.Errorf("read a certificate of the host: %w", err)
		}
		n.Authorities[filepath.Base(file)] = string(raw)
	}
	return n, nil
}

// readMirrors reads the archives that the host uses. A host that is not Debian, or that never fetched its package
// lists, uses the public ones.
func (n *network) readMirrors(ctx context.Context) {
	targets, err := output(ctx, "apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)",
		"Created-By: Packages")
	if err != nil {
		return
	}
	for line := range strings.Lines(targets) {
		fields := strings.Fields(line)
		switch {
		case len(fields) != 3 || fields[0] != "Debian":
		case fields[1] == "Debian":
			n.Mirror = fields[2]
		case fields[1] == "Debian-Security":
			n.Security = fields[2]
		}
	}
}

// aptLines returns the settings that configure how packages are fetched.
func aptLines(dump string) []string {
	var out []string
	for line := range strings.Lines(dump) {
		line = strings.TrimSpace(line)
		for _, prefix := range []string{"Acquire::http", "Acquire::Check-", "Acquire::Retries"} {
			if strings.HasPrefix(line, prefix) && !strings.HasSuffix(line, `"";`) {
				out = append(out, line)
			}
		}
	}
	return out
}

// proxyVariables returns the variables that configure proxies.
func proxyVariables(environment []string) []string {
	var out []string
	for _, variable := range environment {
		name, _, _ := strings.Cut(strings.ToLower(variable), "=")
		if slices.Contains([]string{"http_proxy", "https_proxy", "no_proxy", "all_proxy"}, name) {
			out = append(out, variable)
		}
	}
	slices.Sort(out)
	return out
}

// goVariables returns the sources of Go modules, if they differ from Go's default.
func goVariables(ctx context.Context) []string {
	defaults := map[string]string{"GOPROXY": "https://proxy.golang.org,direct", "GOSUMDB": "sum.golang.org"}
	var out []string
	for _, name := range []string{"GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE"} {
		value, err := output(ctx, "go", "env", name)
		if err == nil && value != defaults[name] {
			out = append(out, name+"="+value)
		}
	}
	return out
}

// pipVariables returns the sources of Python packages as pip's own variables.
func pipVariables(ctx context.Context) []string {
	config, err := output(ctx, "python3", "-m", "pip", "config", "list")
	if err != nil {
		return nil // a host without pip has no settings for it
	}
	var out []string
	for line := range strings.Lines(config) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		option := key[strings.LastIndex(key, ".")+1:]
		if slices.Contains([]string{"index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout"},
			option) {
			name := "PIP_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
			out = append(out, name+"="+strings.Trim(value, `'"`))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// profile returns a file for /etc/profile.d that sets the variables.
func (n *network) profile() string {
	var b strings.Builder
	for _, variable := range n.Environment {
		name, value, _ := strings.Cut(variable, "=")
		fmt.Fprintf(&b, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	return b.String()
}

// sources returns the lines of sources.list for a release.
func (n *network) sources(release string) []string {
	return []string{
		fmt.Sprintf("deb %s %s main", n.Mirror, release),
		fmt.Sprintf("deb %s %s-updates main", n.Mirror, release),
		fmt.Sprintf("deb %s %s-security main", n.Security, release),
	}
}
