// Package registration edits the list of plugins of the Argo Rollouts controller: it adds an entry for each router to
// the text of trafficRouterPlugins and keeps the entries of other plugins. It is pure: it has no client and no context.
package registration

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

var (
	// ErrMalformed reports a text that is not a YAML list of plugins.
	ErrMalformed = errors.New("not a YAML list of plugins")
	// ErrChecksum reports checksums that are not in the format of sha256sum, or lack a file.
	ErrChecksum = errors.New("invalid release checksums")
	// ErrPlatform reports that the platform of the controller is ambiguous.
	ErrPlatform = errors.New("the platform of the controller is ambiguous")
)

// Entry is an entry of a plugin in the list.
type Entry struct {
	// Name is the name of the router.
	Name string
	// Location is the URL of its file, and SHA256 the checksum of the file; it is empty for a file that is not
	// downloaded.
	Location, SHA256 string
}

// Merge returns text with the entries: it replaces the location and the checksum of existing entries, and appends new
// ones. All other content keeps its meaning, order and comments. If nothing changes, the text is unchanged.
func Merge(text string, entries []Entry) (string, error) {
	list, err := parse(text)
	if err != nil {
		return "", err
	}
	changed := false
	for _, entry := range entries {
		changed = setEntry(list, entry) || changed
	}
	if !changed {
		return text, nil
	}
	return format(list)
}

// parse parses a list of plugins. An empty text is an empty list.
func parse(text string) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	list := &yaml.Node{Kind: yaml.SequenceNode}
	if len(document.Content) == 1 && document.Content[0].Tag != "!!null" {
		list = document.Content[0]
	}
	if list.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("%w, but %s: change it to a list first", ErrMalformed, list.ShortTag())
	}
	for _, element := range list.Content {
		if element.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("%w: line %d is not a plugin: use elements of the form {name, location, sha256}",
				ErrMalformed, element.Line)
		}
	}
	list.Style = 0 // block style: one line for each key, because URLs are long
	return list, nil
}

// format formats a list.
func format(list *yaml.Node) (string, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(list), encoder.Close()); err != nil {
		return "", fmt.Errorf("write the list of plugins: %w", err)
	}
	return out.String(), nil
}

// setEntry adds or updates an entry, and reports whether the list has changed.
func setEntry(list *yaml.Node, entry Entry) bool {
	element := &yaml.Node{Kind: yaml.MappingNode}
	for _, existing := range list.Content {
		if name := valueOf(existing, "name"); name != nil && name.Value == entry.Name {
			element = existing
			break
		}
	}
	changed := len(element.Content) == 0
	if changed {
		list.Content = append(list.Content, element)
	}
	changed = setValue(element, "name", entry.Name) || changed
	changed = setValue(element, "location", entry.Location) || changed
	return setValue(element, "sha256", entry.SHA256) || changed
}

// valueOf returns the value of a key, or nil.
func valueOf(element *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(element.Content); i += 2 {
		if element.Content[i].Value == key {
			return element.Content[i+1]
		}
	}
	return nil
}

// setValue sets the value of a key, or removes the key if the value is empty. It reports whether the element has
// changed.
func setValue(element *yaml.Node, key, value string) bool {
	existing := valueOf(element, key)
	switch {
	case value == "" && existing == nil:
		return false
	case value == "":
		index := slices.Index(element.Content, existing)
		element.Content = slices.Delete(element.Content, index-1, index+1)
		return true
	case existing == nil:
		text := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Style: yaml.DoubleQuotedStyle}
		element.Content = append(element.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, text)
		return true
	}
	changed := existing.Value != value || existing.Kind != yaml.ScalarNode
	if changed {
		*existing = yaml.Node{
			Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Style: yaml.DoubleQuotedStyle,
			HeadComment: existing.HeadComment, LineComment: existing.LineComment, FootComment: existing.FootComment,
		}
	}
	return changed
}

// assets returns the prefix of the release files of each router.
func assets() map[string]string {
	return map[string]string{facts.HTTPRouter: "rollouts-plugin-kedify", facts.GatewayRouter: "gatewayapi-plugin"}
}

// Routers returns the names of the routers in a release.
func Routers() []string { return slices.Sorted(maps.Keys(assets())) }

// Entries returns the entries of routers with files of a release: base is the URL of the files without a trailing
// slash, platform e.g. linux-amd64, and checksums the text of checksums.txt.
func Entries(routers []string, base, platform, checksums string) ([]Entry, error) {
	var all []Entry
	for _, router := range routers {
		name, err := asset(router)
		if err != nil {
			return nil, err
		}
		file := name + "-" + platform
		sum := regexp.MustCompile(`(?m)^([0-9a-f]{64}) [ *]` + regexp.QuoteMeta(file) +
			`\r?$`).FindStringSubmatch(checksums)
		if sum == nil {
			return nil, fmt.Errorf("%w: no line for %s", ErrChecksum, file)
		}
		all = append(all, Entry{Name: router, Location: base + "/" + file, SHA256: sum[1]})
	}
	return all, nil
}

// Files returns the entries of routers with files in a folder of the controller's Pod, without a trailing slash.
func Files(routers []string, folder string) ([]Entry, error) {
	var all []Entry
	for _, router := range routers {
		name, err := asset(router)
		if err != nil {
			return nil, err
		}
		all = append(all, Entry{Name: router, Location: "file://" + folder + "/" + name})
	}
	return all, nil
}

// asset returns the prefix of a router's release files.
func asset(router string) (string, error) {
	name, ok := assets()[router]
	if !ok {
		return "", fmt.Errorf("unknown router %q: use %s", router, strings.Join(Routers(), " or "))
	}
	return name, nil
}

// Platform returns the platform of the nodes that the controller runs on, or of all nodes if it does not run.
func Platform(cluster *facts.Facts) (string, error) {
	controllerNodes := map[string]bool{}
	for _, pod := range cluster.Pods {
		controllerNodes[pod.Spec.NodeName] = true
	}
	running, all := map[string]bool{}, map[string]bool{}
	for _, node := range cluster.Nodes {
		if architecture := node.Status.NodeInfo.Architecture; architecture != "" {
			all["linux-"+architecture] = true
			if controllerNodes[node.Name] {
				running["linux-"+architecture] = true
			}
		}
	}
	if len(running) > 0 {
		all = running
	}
	platforms := slices.Sorted(maps.Keys(all))
	if len(platforms) != 1 {
		return "", fmt.Errorf("%w: its nodes are %v: specify --platform, and restrict the controller to such nodes",
			ErrPlatform, platforms)
	}
	return platforms[0], nil
}
