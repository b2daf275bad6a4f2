package gatewayapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// Type is the router's name in Rollouts and in the controller's configuration.
const Type = "argoproj-labs/gatewayAPI"

// configField is the field of a Rollout that configures this router, as messages name it.
const configField = `spec.strategy.canary.trafficRouting.plugins["` + Type + `"]`

// The keys of the configuration that do not belong to one kind of route.
const (
	// namespaceKey is the default namespace of routes. Default: the Rollout's.
	namespaceKey = "namespace"
	// labelOffKey disables the in-progress label. Default false.
	labelOffKey = "disableInProgressLabel"
	// labelKeyKey and labelValueKey are the label's key and value.
	labelKeyKey, labelValueKey = "inProgressLabelKey", "inProgressLabelValue"
	// verifyKey decides whether a weight counts as verified only after the Gateways report it in the routes' status.
	// Default true.
	verifyKey = "verifyRouteStatus"
	// configMapKey and skipKey are keys of the argoproj-labs plugin: its ConfigMap, which its later versions do not use,
	// and whether SetWeight leaves header routes as they are, which is always the case here. They are parsed and have no
	// effect.
	configMapKey, skipKey = "configMap", "skipManagedRoutesOnSetWeight"
)

// defaultLabelValue is the default value of the in-progress label.
const defaultLabelValue = "in-progress"

// kinds returns the kinds of routes, in the order in which they are handled.
func kinds() []route.Kind {
	return []route.Kind{route.HTTPRoute, route.GRPCRoute, route.TCPRoute, route.TLSRoute, route.UDPRoute}
}

// prefix returns the common prefix of a kind's keys, e.g. httpRoute.
func prefix(kind route.Kind) string {
	return strings.ToLower(strings.TrimSuffix(string(kind), "Route")) + "Route"
}

// settings is the router's configuration in a Rollout.
type settings struct {
	engine.Settings

	routes     []reference // in the order of kinds; within a kind, those of the list first
	selections []selection
	label      *route.Label // nil if the label is disabled
	sessions   route.Sessions
	// sessionsErr is the error of stickinessKey. It concerns only requests that raise a weight: see
	// route.Intent.SessionsError.
	sessionsErr error
}

// reference is one route in the configuration of a Rollout.
type reference struct {
	kind         route.Kind
	name         types.NamespacedName
	ruleName     string // the only rule in scope; empty for all
	headerRoutes bool   // whether it accepts header and mirror routes
	field        string // of the Rollout
}

// String returns the route's kind and name.
func (r reference) String() string { return fmt.Sprintf("%s %q", r.kind, r.name) }

// selection is a label selector for routes in the configuration of a Rollout.
type selection struct {
	kind      route.Kind
	namespace string
	labels    labels.Selector
	field     string // of the Rollout
}

// routeEntry is one element of a list of routes in the configuration.
type routeEntry struct {
	Name            string `json:"name"`
	UseHeaderRoutes bool   `json:"useHeaderRoutes"`
	Namespace       string `json:"namespace"`
	RuleName        string `json:"ruleName"`
}

// settingsOf parses the router's configuration in rollout. Unknown keys are errors, so that a misspelled key is
// noticed. Keys are case-insensitive, as in the argoproj-labs plugin.
func settingsOf(rollout *v1alpha1.Rollout) (settings, error) {
	const fix = "write {httpRoute: <name of an HTTPRoute>} there"
	raw, err := engine.ParseConfig(rollout, Type, fix)
	if err != nil {
		return settings{}, err
	}
	config, err := canonical(raw)
	if err != nil {
		return settings{}, err
	}
	chosen, err := config.settings(rollout.Namespace)
	if err != nil {
		return settings{}, err
	}
	if len(chosen.routes) == 0 && len(chosen.selections) == 0 {
		return settings{}, fmt.Errorf("%s names no route: %s", configField, fix)
	}
	return chosen, nil
}

// rawConfig is the configuration in a Rollout by key, in the documented spelling.
type rawConfig map[string]json.RawMessage

// keys returns all keys of the configuration, sorted.
func keys() []string {
	all := []string{
		namespaceKey, labelOffKey, labelKeyKey, labelValueKey, verifyKey, configMapKey, skipKey, stickinessKey,
		engine.SafePromotionKey, engine.ImmediateAbortKey, engine.LimitWeightKey,
	}
	for _, kind := range kinds() {
		all = append(all, prefix(kind), prefix(kind)+"RuleName", prefix(kind)+"s", prefix(kind)+"Selector")
	}
	slices.Sort(all)
	return all
}

// canonical returns raw with its keys in the documented spelling, without null values.
func canonical(raw map[string]json.RawMessage) (rawConfig, error) {
	all, config := keys(), rawConfig{}
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		at := slices.IndexFunc(all, func(name string) bool { return strings.EqualFold(name, key) })
		if at < 0 {
			return nil, fmt.Errorf("%s has the unknown key %.80q: remove it, the keys are %s", configField, key,
				strings.Join(all, ", "))
		}
		if string(raw[key]) != "null" {
			config[all[at]] = raw[key]
		}
	}
	return config, nil
}

// settings parses the configuration of a Rollout in namespace.
func (c rawConfig) settings(namespace string) (settings, error) {
	var err error
	parse := func(key string, into any, form string) {
		if value, ok := c[key]; ok && err == nil && json.Unmarshal(value, into) != nil {
			err = fmt.Errorf("%s.%s is %.80s: write %s", configField, key, value, form)
		}
	}
	chosen := settings{
		Settings: engine.DefaultSettings(),
		label:    &route.Label{Key: route.DefaultLabelKey, Value: defaultLabelValue},
	}
	var labelOff, skip bool
	var limitWeight *bool
	var configMap string
	parse(namespaceKey, &namespace, "the name of a namespace")
	parse(verifyKey, &chosen.VerifyDataPlane, "true or false")
	parse(engine.SafePromotionKey, &chosen.SafePromotion, "true or false")
	parse(engine.ImmediateAbortKey, &chosen.ImmediateAbort, "true or false")
	parse(engine.LimitWeightKey, &limitWeight, "true or false")
	parse(labelOffKey, &labelOff, "true or false")
	parse(skipKey, &skip, "true or false")
	parse(configMapKey, &configMap, "a name, or nothing: it is not used")
	parse(labelKeyKey, &chosen.label.Key, "a label's key")
	parse(labelValueKey, &chosen.label.Value, "a label's value")
	if err != nil {
		return settings{}, err
	}
	if limitWeight != nil {
		chosen.WeightLimit = engine.WeightLimitOf(*limitWeight)
	}
	for _, kind := range kinds() {
		err = errors.Join(c.named(kind, namespace, &chosen), c.selected(kind, namespace, &chosen))
		if err != nil {
			return settings{}, err
		}
	}
	chosen.sessions, chosen.sessionsErr = c.stickiness(&chosen)
	if labelOff {
		chosen.label = nil
		return chosen, nil
	}
	return chosen, checkLabel(*chosen.label)
}

// checkLabel validates a label like the API server.
func checkLabel(label route.Label) error {
	if problems := validation.IsQualifiedName(label.Key); len(problems) > 0 {
		return fmt.Errorf("%s.%s is %.80q, which cannot be a label's key: %s", configField, labelKeyKey, label.Key,
			strings.Join(problems, "; "))
	}
	if problems := validation.IsValidLabelValue(label.Value); len(problems) > 0 {
		return fmt.Errorf("%s.%s is %.80q, which cannot be a label's value: %s", configField, labelValueKey, label.Value,
			strings.Join(problems, "; "))
	}
	return nil
}

// named adds the configured routes of kind: those of the list, then the single one, which accepts header routes.
func (c rawConfig) named(kind route.Kind, namespace string, to *settings) error {
	list, single, ruleKey := prefix(kind)+"s", prefix(kind), prefix(kind)+"RuleName"
	var entries []routeEntry
	if value, ok := c[list]; ok {
		decoder := json.NewDecoder(bytes.NewReader(value))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&entries); err != nil {
			return fmt.Errorf("%s.%s is %.80s: write a list of {name, namespace, ruleName, useHeaderRoutes}: %w", configField,
				list, value, err)
		}
	}
	for i, e := range entries {
		if e.Namespace == "" {
			e.Namespace = namespace
		}
		if err := to.add(kind, e, fmt.Sprintf("%s.%s[%d]", configField, list, i)); err != nil {
			return err
		}
	}
	alone := routeEntry{Namespace: namespace, UseHeaderRoutes: true}
	for key, into := range map[string]*string{single: &alone.Name, ruleKey: &alone.RuleName} {
		if value, ok := c[key]; ok && json.Unmarshal(value, into) != nil {
			return fmt.Errorf("%s.%s is %.80s: write a name", configField, key, value)
		}
	}
	if alone.Name == "" && alone.RuleName == "" {
		return nil
	}
	return to.add(kind, alone, configField+"."+single)
}

// add adds a route. A second entry for the same route can only add that it accepts header routes.
func (s *settings) add(kind route.Kind, e routeEntry, field string) error {
	if problems := validation.IsDNS1123Subdomain(e.Name); len(problems) > 0 {
		return fmt.Errorf("%s names %.80q, which cannot be a route's name: %s", field, e.Name, strings.Join(problems, "; "))
	}
	if problems := validation.IsDNS1123Label(e.Namespace); len(problems) > 0 {
		return fmt.Errorf("%s is in namespace %.80q, which cannot be a namespace's name: %s", field, e.Namespace,
			strings.Join(problems, "; "))
	}
	added := reference{
		kind: kind, name: types.NamespacedName{Namespace: e.Namespace, Name: e.Name},
		ruleName: e.RuleName, headerRoutes: e.UseHeaderRoutes, field: field,
	}
	at := slices.IndexFunc(s.routes, func(r reference) bool { return r.kind == kind && r.name == added.name })
	if at < 0 {
		s.routes = append(s.routes, added)
		return nil
	}
	if s.routes[at].ruleName != added.ruleName {
		return fmt.Errorf("%s names %s again, with another ruleName than %s: name it once; without a ruleName, every rule "+
			"with both Services is in scope", field, added, s.routes[at].field)
	}
	s.routes[at].headerRoutes = s.routes[at].headerRoutes || added.headerRoutes
	return nil
}

// selected adds the label selector of kind, if there is one.
func (c rawConfig) selected(kind route.Kind, namespace string, to *settings) error {
	key := prefix(kind) + "Selector"
	value, ok := c[key]
	if !ok {
		return nil
	}
	var selector metav1.LabelSelector
	if err := json.Unmarshal(value, &selector); err != nil {
		return fmt.Errorf("%s.%s is %.80s: write a label selector, e.g. {matchLabels: {app: shop}}", configField, key, value)
	}
	parsed, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return fmt.Errorf("%s.%s: %w", configField, key, err)
	}
	to.selections = append(to.selections, selection{kind: kind, namespace: namespace, labels: parsed, field: configField +
		"." + key})
	return nil
}
