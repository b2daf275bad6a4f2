package envoysettings

import (
	"bytes"
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
	// Name is the name of a namespace's ConfigMap, for the objects of that namespace. It is that of Kedify's agent.
	Name = "kedify-proxy-template-values"
	// GlobalName is the name of the ConfigMap in the interceptor's namespace, for all objects.
	GlobalName = "kedify-proxy-template-values-global"
	// KeyRoute is the key of their data for settings of routes.
	KeyRoute = "route"
	// KeyCluster is the key for settings of clusters.
	KeyCluster = "cluster"
	// maxText is the size of the largest value of a key, in bytes.
	maxText = 16 << 10
	// maxShown is how much of a wrong value a message repeats, in bytes.
	maxShown = 80
)

// ErrSettings is what every mistake in a ConfigMap is.
var ErrSettings = errors.New("it cannot be used")

// Parse reads the data of a ConfigMap. An error names each setting that is wrong, its value and what is allowed; then
// nothing of the ConfigMap is to be used. Other keys than KeyRoute and KeyCluster are a mistake, too.
func Parse(data map[string]string) (*model.Tuning, error) {
	tuning := new(model.Tuning)
	var wrong []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if key != KeyRoute && key != KeyCluster {
			wrong = append(wrong, fmt.Sprintf("key %.80q; allowed are %s and %s", key, KeyRoute, KeyCluster))
			continue
		}
		settings, mistake := read(data[key])
		if mistake != "" {
			wrong = append(wrong, "key "+key+": "+mistake)
			continue
		}
		for _, path := range slices.Sorted(maps.Keys(settings)) {
			if mistake := assign(tuning, key+"."+path, settings[path]); mistake != "" {
				wrong = append(wrong, mistake)
			}
		}
	}
	if len(wrong) == 0 {
		wrong = contradictions(tuning)
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrSettings, strings.Join(wrong, "; "))
	}
	return tuning, nil
}

// assign takes one setting, or says what is wrong with it.
func assign(tuning *model.Tuning, path, text string) (mistake string) {
	all := known()
	at := slices.IndexFunc(all, func(each setting) bool { return each.Path == path })
	if at < 0 {
		return fmt.Sprintf("%.120s: it is not among the settings that may be changed", path)
	}
	if !all[at].set(tuning, text) {
		return fmt.Sprintf("%s: %.*q; allowed: %s", path, maxShown, text, all[at].Allowed)
	}
	return ""
}

// read reads the YAML of a key to texts by path, such as retry_policy.num_retries. Of a list of values the text has commas, and
// of a list with an object the path has [0].
func read(text string) (settings map[string]string, mistake string) {
	if len(text) > maxText {
		return nil, fmt.Sprintf("%d bytes; allowed are %d", len(text), maxText)
	}
	asJSON, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, fmt.Sprintf("this is no YAML: %.200v", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.UseNumber()
	var root any
	if err := decoder.Decode(&root); err != nil {
		return nil, fmt.Sprintf("this is no YAML: %.200v", err)
	}
	settings = map[string]string{}
	switch root.(type) {
	case nil: // Nothing is set.
	case map[string]any:
		flatten("", root, settings)
	default:
		return nil, fmt.Sprintf("%.*q; allowed is an object with Envoy's fields", maxShown, text)
	}
	return settings, ""
}

// flatten adds the leaves of a value.
func flatten(path string, value any, into map[string]string) {
	switch is := value.(type) {
	case map[string]any:
		for name, inner := range is {
			flatten(strings.TrimPrefix(path+"."+name, "."), inner, into)
		}
	case []any:
		var texts []string
		for i, inner := range is {
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
		into[path] = fmt.Sprint(is)
	}
}

// contradictions are settings that are right by themselves and wrong together.
func contradictions(tuning *model.Tuning) (wrong []string) {
	backOff, balance := tuning.Route.BackOff, tuning.Cluster.Balance
	if backOff.Max > 0 && (backOff.Base == 0 || backOff.Max < backOff.Base) {
		wrong = append(wrong, fmt.Sprintf("%s: \"%v\"; allowed: not less than %s, which has to be there", pathBackOffMax, backOff.Max, pathBackOff))
	}
	hasSlowStart := balance.SlowStart > 0 || balance.MinWeight.IsGiven
	if balance.MinWeight.IsGiven && balance.SlowStart == 0 {
		wrong = append(wrong, "cluster: min_weight_percent is of use only with slow_start_window")
	}
	if balance.Policy == "" && (hasSlowStart || balance.ChoiceCount > 0) {
		wrong = append(wrong, pathPolicy+": it has to be there with round_robin_lb_config and least_request_lb_config, and fit them")
	}
	return wrong
}
