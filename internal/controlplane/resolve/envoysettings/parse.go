package envoysettings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// Name is the name of a namespace's ConfigMap, for the objects of that namespace. Kedify's agent uses the same
	// name.
	Name = "kedify-proxy-template-values"
	// GlobalName is the name of the ConfigMap in the interceptor's namespace, which applies to all objects.
	GlobalName = "kedify-proxy-template-values-global"
	// KeyRoute is the key of route settings.
	KeyRoute = "route"
	// KeyCluster is the key of cluster settings.
	KeyCluster = "cluster"
	// KeyKedifyRoute is the key of route settings in the ConfigMaps of Kedify's agent. Its content may be below a field
	// route (github.com/kedify/charts, chart kedify-agent).
	KeyKedifyRoute = "envoy-config-route"
	// KeyKedifyCluster is the same for cluster settings.
	KeyKedifyCluster = "envoy-config-cluster"
	// KeyContent is the key with the values of the chart kedify-proxy in the ConfigMaps of Kedify's agent. It is ignored:
	// this project's agent has settings of its own for the proxies.
	KeyContent = "content"
	// maxBytes is the maximum size of a key's value in bytes.
	maxBytes = 16 << 10
	// maxShown is the maximum length of an invalid value in a message, in bytes.
	maxShown = 80
)

// Parsed is the content of a ConfigMap. Invalid parts have no effect on the others.
type Parsed struct {
	// values are the valid values by path, such as route.timeout.
	values map[string]string
	// rejected are the paths of invalid values, and the sections of unreadable keys, such as "route.".
	rejected []string
	// Problems are the validation errors. Each names a setting, its value and the allowed values.
	Problems []string
}

// Parse parses the data of a ConfigMap.
func Parse(data map[string]string) Parsed {
	parsed := Parsed{values: map[string]string{}}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		switch section := sections()[key]; {
		case key == KeyContent:
		case section == "":
			parsed.Problems = append(parsed.Problems,
				fmt.Sprintf("unknown key %.80q: use %s or %s", key, KeyRoute, KeyCluster))
		default:
			addSection(&parsed, key, section, data[key])
		}
	}
	return parsed
}

// sections returns the sections of settings by key.
func sections() map[string]string {
	return map[string]string{
		KeyRoute: KeyRoute, KeyKedifyRoute: KeyRoute, KeyCluster: KeyCluster, KeyKedifyCluster: KeyCluster,
	}
}

// addSection adds the settings in the text of one key.
func addSection(p *Parsed, key, section, text string) {
	values, problem := parseYAML(text)
	if problem != "" {
		p.rejected = append(p.rejected, section+".")
		p.Problems = append(p.Problems, "key "+key+": "+problem)
		return
	}
	for _, path := range slices.Sorted(maps.Keys(values)) {
		value := values[path]
		path = section + "." + strings.TrimPrefix(path, section+".") // Kedify's keys repeat the section
		if problem := assign(new(model.EnvoySettings), path, value); problem != "" {
			p.rejected = append(p.rejected, path)
			p.Problems = append(p.Problems, problem)
			continue
		}
		if _, has := p.values[path]; has && key != section {
			continue // this project's key takes precedence
		}
		p.values[path] = value
	}
}

// Over returns the content with the values of the previous content instead of invalid ones. An unreadable key keeps
// all values of its section.
func (p Parsed) Over(previous Parsed) Parsed {
	merged := Parsed{values: maps.Clone(p.values), Problems: p.Problems}
	for _, rejected := range p.rejected {
		for path, value := range previous.values {
			isKept := path == rejected || strings.HasSuffix(rejected, ".") && strings.HasPrefix(path, rejected)
			if _, has := merged.values[path]; isKept && !has {
				merged.values[path] = value
			}
		}
	}
	return merged
}

// Settings returns the settings, and the problems of values that are valid separately but not together. Of those, the
// ones that depend on others have no effect.
func (p Parsed) Settings() (settings *model.EnvoySettings, problems []string) {
	values := maps.Clone(p.values)
	for {
		settings = new(model.EnvoySettings)
		for _, path := range slices.Sorted(maps.Keys(values)) {
			if problem := assign(settings, path, values[path]); problem != "" {
				problems = append(problems, problem)
				delete(values, path)
			}
		}
		problem, dependent := conflict(settings, values)
		if problem == "" {
			return settings, problems
		}
		problems = append(problems, problem)
		for _, path := range dependent {
			delete(values, path)
		}
	}
}

// Equal reports whether two ConfigMaps have the same effect and the same problems.
func (p Parsed) Equal(other Parsed) bool {
	return maps.Equal(p.values, other.values) && slices.Equal(p.rejected, other.rejected) &&
		slices.Equal(p.Problems, other.Problems)
}

// assign applies one setting and returns the problem, "" for none.
func assign(settings *model.EnvoySettings, path, text string) (problem string) {
	all := supportedSettings()
	index := slices.IndexFunc(all, func(each setting) bool { return each.Path == path })
	if index < 0 {
		return fmt.Sprintf("%.120s: unsupported setting: remove it", path)
	}
	if !all[index].set(settings, text) {
		return fmt.Sprintf("%s: invalid value %.*q: use %s", path, maxShown, text, all[index].Allowed)
	}
	return ""
}

// parseYAML parses the YAML of a key to values by path, such as retry_policy.num_retries. The values of a list are
// joined by commas, and the path of an object in a list contains its index, such as [0].
func parseYAML(text string) (values map[string]string, problem string) {
	if len(text) > maxBytes {
		return nil, fmt.Sprintf("%d bytes exceed the limit of %d", len(text), maxBytes)
	}
	asJSON, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, fmt.Sprintf("invalid YAML: %.200v", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.UseNumber()
	var root any
	if err := decoder.Decode(&root); err != nil {
		return nil, fmt.Sprintf("invalid YAML: %.200v", err)
	}
	values = map[string]string{}
	switch root.(type) {
	case nil: // Nothing is set.
	case map[string]any:
		flatten("", root, values)
	default:
		return nil, fmt.Sprintf("%.*q is not an object: use Envoy's field names as keys", maxShown, text)
	}
	return values, ""
}

// flatten adds the leaves of a value. A null is none: in the JSON of Envoy's messages it means that a field is not set.
func flatten(path string, value any, into map[string]string) {
	switch typed := value.(type) {
	case map[string]any:
		for name, inner := range typed {
			flatten(strings.TrimPrefix(path+"."+name, "."), inner, into)
		}
	case []any:
		var texts []string
		for i, inner := range typed {
			if _, isObject := inner.(map[string]any); isObject {
				flatten(fmt.Sprintf("%s[%d]", path, i), inner, into)
			} else {
				texts = append(texts, fmt.Sprint(inner))
			}
		}
		if len(texts) > 0 {
			into[path] = strings.Join(texts, ",")
		}
	case nil:
	default:
		into[path] = fmt.Sprint(typed)
	}
}

// conflict returns the first problem of settings that are valid separately but not together, and the paths in values
// that depend on others; "" without a problem.
func conflict(settings *model.EnvoySettings, values map[string]string) (problem string, dependent []string) {
	backOff, balance := settings.Route.BackOff, settings.Cluster.Balance
	hasSlowStart := balance.SlowStart > 0 || balance.MinWeight.IsGiven
	outliers := settings.Cluster.Outliers
	leastEjection := cmp.Or(outliers.Base, model.DefaultEjection)
	below := func(parts ...string) (paths []string) {
		for path := range values {
			if slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(path, part) }) {
				paths = append(paths, path)
			}
		}
		return paths
	}
	switch {
	case backOff.Max > 0 && (backOff.Base == 0 || backOff.Max < backOff.Base):
		return fmt.Sprintf("%s: invalid value \"%v\": set %s too, to at most this value", pathBackOffMax, backOff.Max,
			pathBackOff), []string{pathBackOffMax}
	case balance.Policy == "" && (hasSlowStart || balance.ChoiceCount > 0):
		return pathPolicy + ": missing: set the policy that round_robin_lb_config or least_request_lb_config belongs to",
			below("_lb_config.")
	case balance.MinWeight.IsGiven && balance.SlowStart == 0:
		return "cluster: min_weight_percent requires slow_start_window", below(".min_weight_percent")
	case settings.Cluster.MaxRetries > 0 && settings.Cluster.RetryBudget != (model.RetryBudget{}):
		return pathMaxRetries + ": Envoy ignores it next to retry_budget: remove one of them", []string{pathMaxRetries}
	case outliers.Max > 0 && outliers.Max < leastEjection:
		return fmt.Sprintf("%s: invalid value \"%v\": use at least base_ejection_time, %v", pathMaxEjection, outliers.Max,
			leastEjection), []string{pathMaxEjection}
	}
	return tlsConflict(settings.Cluster.TLS)
}
