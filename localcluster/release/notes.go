package release

import (
	"bufio"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Errors in the inputs of the notes.
var (
	// ErrChecksum is returned if the checksums lack a binary or are not in sha256sum's format.
	ErrChecksum = errors.New("checksums.txt is not a release's")
	// ErrChangelog is returned if the changelog has no section for a version.
	ErrChangelog = errors.New("CHANGELOG.md has no section for the version")
)

// routers are the traffic routers by their names in Rollouts, with the names of their binaries.
func routers() [][2]string {
	return [][2]string{{"kedify/http", "rollouts-plugin-kedify"}, {"argoproj-labs/gatewayAPI", "gatewayapi-plugin"}}
}

// platforms are the platforms of each router's release.
func platforms() []string {
	return []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"}
}

// repository is the project's URL.
const repository = "https://github.com/kedify/argo-rollouts-plugin"

// unreleased is the changelog's section of unreleased changes.
const unreleased = "Unreleased"

// Notes returns the notes of a version in Markdown: the version's section of the changelog, and for each platform a
// ConfigMap that can be applied unchanged. Base is the URL of the binaries, without a trailing slash. The notes of a
// prerelease contain the unreleased section, unless the version has a section of its own.
func Notes(version, base, changelog, checksums string) (string, error) {
	changes, err := section(changelog, version)
	if err != nil {
		return "", err
	}
	sums, err := parseSums(checksums)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	// The changelog's links are relative to the repository; a release's page is elsewhere.
	absolute := regexp.MustCompile(`\]\(([\w.-]+(?:/[\w./-]+)?(?:#[\w-]+)?)\)`)
	changes = absolute.ReplaceAllString(changes, "]("+repository+"/blob/v"+version+"/$1)")
	fmt.Fprintf(&out, "%s\n\n## Install\n\n", changes)
	out.WriteString("The controller downloads the plugins and verifies their checksums. Copy the ConfigMap of the " +
		"controller's platform,\n" +
		"without the router that you do not use. Add the entries of plugins that you already have: `kubectl apply` replaces\n" +
		"the whole list. For the roles and everything else, see [install](" + repository + "/blob/v" + version + "/docs/how-to/install.md).\n")
	for _, platform := range platforms() {
		entries, err := configMap(base, platform, sums)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "\n### %s\n\n```yaml\n%s```\n", strings.Replace(platform, "-", "/", 1), entries)
	}
	return out.String(), nil
}

// configMap registers all routers for one platform.
func configMap(base, platform string, sums map[string]string) (string, error) {
	var out strings.Builder
	out.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: argo-rollouts-config\n" +
		"  namespace: argo-rollouts\n" +
		"data:\n  trafficRouterPlugins: |\n")
	for _, router := range routers() {
		asset := router[1] + "-" + platform
		sum, found := sums[asset]
		if !found {
			return "", fmt.Errorf("%w: it lacks %s", ErrChecksum, asset)
		}
		fmt.Fprintf(&out, "    - name: %q\n      location: %q\n      sha256: %q\n", router[0], base+"/"+asset, sum)
	}
	return out.String(), nil
}

// parseSums parses sha256sum's output: a sum and a name on each line.
func parseSums(text string) (map[string]string, error) {
	line := regexp.MustCompile(`^([0-9a-f]{64}) [ *](\S+)$`)
	out := map[string]string{}
	for scanner := bufio.NewScanner(strings.NewReader(text)); scanner.Scan(); {
		found := line.FindStringSubmatch(scanner.Text())
		if found == nil {
			return nil, fmt.Errorf("%w: %q", ErrChecksum, scanner.Text())
		}
		out[found[2]] = found[1]
	}
	return out, nil
}

// section returns the changelog's section of a version, without the heading.
func section(changelog, version string) (string, error) {
	heading := regexp.MustCompile(`(?m)^## \[?([^]\s]+)\]?.*\n`)
	found := heading.FindAllStringSubmatchIndex(changelog, -1)
	at := func(name string) int {
		return slices.IndexFunc(found, func(m []int) bool { return changelog[m[2]:m[3]] == name })
	}
	i := at(version)
	if i < 0 && strings.Contains(version, "-") {
		i = at(unreleased)
	}
	if i < 0 {
		return "", fmt.Errorf("%w %s: rename its section %s before the tag is made", ErrChangelog, version, unreleased)
	}
	end := len(changelog)
	if i+1 < len(found) {
		end = found[i+1][0]
	}
	return strings.TrimSpace(changelog[found[i][1]:end]), nil
}
