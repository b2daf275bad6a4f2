package envoysettings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
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
	// maxBytes is the maximum size of a key's value in bytes.
	maxBytes = 16 << 10
	// maxShown is the maximum length of an invalid value in a message, in bytes.
	maxShown = 80
)

// ErrInvalid is wrapped by every error of Parse.
var ErrInvalid = errors.New("invalid settings")

// Parse parses the data of a ConfigMap. An error names each invalid setting, its value and the allowed values;
// nothing of the ConfigMap may be applied then. Keys other than KeyRoute and KeyCluster are errors.
func Parse(data map[string]string) (*model.EnvoySettings, error) {
	settings := new(model.EnvoySettings)
	var problems []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if key != KeyRoute && key != KeyCluster {
			problems = append(problems, fmt.Sprintf("unknown key %.80q: use %s or %s", key, KeyRoute, KeyCluster))
			continue
		}
		values, problem := parseYAML(data[key])
		if problem != "" {
			problems = append(problems, "key "+key+": "+problem)
			continue
		}
		for _, path := range slices.Sorted(maps.Keys(values)) {
			if problem := assign(settings, key+"."+path, values[path]); problem != "" {
				problems = append(problems, problem)
			}
		}
	}
	if len(problems) == 0 {
		problems = conflicts(settings)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrInvalid, strings.Join(problems, "; "))
	}
	return settings, nil
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

// flatten adds the leaves of a value.
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
	default:
		into[path] = fmt.Sprint(typed)
	}
}

// conflicts returns the problems of settings that are valid separately but not together.
func conflicts(settings *model.EnvoySettings) (problems []string) {
	backOff, balance := settings.Route.BackOff, settings.Cluster.Balance
	if backOff.Max > 0 && (backOff.Base == 0 || backOff.Max < backOff.Base) {
		problems = append(problems,
			fmt.Sprintf("%s: invalid value \"%v\": set %s too, to at most this value", pathBackOffMax, backOff.Max, pathBackOff))
	}
	hasSlowStart := balance.SlowStart > 0 || balance.MinWeight.IsGiven
	if balance.MinWeight.IsGiven && balance.SlowStart == 0 {
		problems = append(problems, "cluster: min_weight_percent requires slow_start_window")
	}
	if balance.Policy == "" && (hasSlowStart || balance.ChoiceCount > 0) {
		problems = append(problems,
			pathPolicy+": missing: set the policy that round_robin_lb_config or least_request_lb_config belongs to")
	}
	if budget := settings.Cluster.RetryBudget; settings.Cluster.MaxRetries > 0 && budget != (model.RetryBudget{}) {
		problems = append(problems, pathMaxRetries+": Envoy ignores it next to retry_budget: remove one of them")
	}
	outliers := settings.Cluster.Outliers
	if least := cmp.Or(outliers.Base, model.DefaultEjection); outliers.Max > 0 && outliers.Max < least {
		problems = append(problems, fmt.Sprintf("%smax_ejection_time: invalid value \"%v\": use at least "+
			"base_ejection_time, %v", pathOutliers, outliers.Max, least))
	}
	return problems
}
