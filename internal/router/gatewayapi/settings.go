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

// Type is the name under which Rollouts and the controller's configuration know this router.
const Type = "argoproj-labs/gatewayAPI"

// configField is where a Rollout configures this router, as messages name it.
const configField = `spec.strategy.canary.trafficRouting.plugins["` + Type + `"]`

// The keys of the configuration that are not of one kind of route.
const (
	// namespaceKey is the namespace of routes that name none of their own. Default: the Rollout's.
	namespaceKey = "namespace"
	// labelOffKey turns the in-progress label off. Default false.
	labelOffKey = "disableInProgressLabel"
	// labelKeyKey and labelValueKey are the label's key and value.
	labelKeyKey, labelValueKey = "inProgressLabelKey", "inProgressLabelValue"
	// verifyKey is whether weights are verified by what Gateways report in the routes' status. Default true.
	verifyKey = "verifyRouteStatus"
	// configMapKey and skipKey are what the published plugin has: its ConfigMap, which later versions of it don't use, and whether SetWeight leaves header routes alone,
	// which is always so here. They are read and change nothing.
	configMapKey, skipKey = "configMap", "skipManagedRoutesOnSetWeight"
)

// defaultLabelValue is the value of the label that a route carries while a Rollout is active on it, unless the Rollout says otherwise.
const defaultLabelValue = "in-progress"

// kinds are the kinds of routes, in the order in which they are handled.
func kinds() []route.Kind {
	return []route.Kind{route.HTTPRoute, route.GRPCRoute, route.TCPRoute, route.TLSRoute, route.UDPRoute}
}

// prefix is what the keys of a kind begin with, such as httpRoute.
func prefix(kind route.Kind) string {
	return strings.ToLower(strings.TrimSuffix(string(kind), "Route")) + "Route"
}

// settings are what a Rollout configures of this router.
type settings struct {
	engine.Settings

	routes     []reference // in the order of kinds, of those in lists first
	selections []selection
	label      *route.Label // nil where the label is turned off
}

// reference is one route as a Rollout means it.
type reference struct {
	kind         route.Kind
	name         types.NamespacedName
	ruleName     string // the only rule to touch; empty for all
	headerRoutes bool   // whether it takes header and mirror routes
	field        string // where the Rollout names it
}

// String names the route in messages.
func (t reference) String() string { return fmt.Sprintf("%s %q", t.kind, t.name) }

// selection is a set of routes, by their labels.
type selection struct {
	kind      route.Kind
	namespace string
	labels    labels.Selector
	field     string // where the Rollout has it
}

// entry is one element of a list of routes in the configuration.
type entry struct {
	Name            string `json:"name"`
	UseHeaderRoutes bool   `json:"useHeaderRoutes"`
	Namespace       string `json:"namespace"`
	RuleName        string `json:"ruleName"`
}

// settingsOf reads the router's configuration in rollout: an object with the keys of this router and nothing else, so that a mistyped key is noticed. As
// with the published plugin, upper and lower case of keys are the same.
func settingsOf(rollout *v1alpha1.Rollout) (settings, error) {
	const remedy = "write {httpRoute: <name of an HTTPRoute>} there"
	raw := engine.ConfigOf(rollout, Type)
	if len(raw) == 0 {
		return settings{}, fmt.Errorf("%s is missing: %s", configField, remedy)
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return settings{}, fmt.Errorf("%s is %.80s, not an object: %s", configField, raw, remedy)
	}
	config, err := canonical(given)
	if err != nil {
		return settings{}, err
	}
	chosen, err := config.settings(rollout.Namespace)
	if err != nil {
		return settings{}, err
	}
	if len(chosen.routes) == 0 && len(chosen.selections) == 0 {
		return settings{}, fmt.Errorf("%s names no route: %s", configField, remedy)
	}
	return chosen, nil
}

// configuration is the configuration in a Rollout, by its keys as they are documented.
type configuration map[string]json.RawMessage

// keys are all keys of the configuration, sorted.
func keys() []string {
	known := []string{namespaceKey, labelOffKey, labelKeyKey, labelValueKey, verifyKey, engine.PromotionKey, engine.AbortKey, configMapKey, skipKey}
	for _, kind := range kinds() {
		known = append(known, prefix(kind), prefix(kind)+"RuleName", prefix(kind)+"s", prefix(kind)+"Selector")
	}
	slices.Sort(known)
	return known
}

// canonical is given with its keys as they are documented, without those whose value is null.
func canonical(given map[string]json.RawMessage) (configuration, error) {
	known, config := keys(), configuration{}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		at := slices.IndexFunc(known, func(name string) bool { return strings.EqualFold(name, key) })
		if at < 0 {
			return nil, fmt.Errorf("%s has the unknown key %.80q: remove it, the keys are %s", configField, key, strings.Join(known, ", "))
		}
		if string(given[key]) != "null" {
			config[known[at]] = given[key]
		}
	}
	return config, nil
}

// settings reads the configuration of a Rollout in namespace.
func (c configuration) settings(namespace string) (settings, error) {
	var err error
	read := func(key string, into any, form string) {
		if value, given := c[key]; given && err == nil && json.Unmarshal(value, into) != nil {
			err = fmt.Errorf("%s.%s is %.80s: write %s", configField, key, value, form)
		}
	}
	chosen := settings{
		Settings: engine.Settings{VerifyDataPlane: true, SafePromotion: true, ImmediateAbort: true},
		label:    &route.Label{Key: route.DefaultLabelKey, Value: defaultLabelValue},
	}
	var labelOff, skip bool
	var configMap string
	read(namespaceKey, &namespace, "the name of a namespace")
	read(verifyKey, &chosen.VerifyDataPlane, "true or false")
	read(engine.PromotionKey, &chosen.SafePromotion, "true or false")
	read(engine.AbortKey, &chosen.ImmediateAbort, "true or false")
	read(labelOffKey, &labelOff, "true or false")
	read(skipKey, &skip, "true or false")
	read(configMapKey, &configMap, "a name, or nothing: it is not used")
	read(labelKeyKey, &chosen.label.Key, "a label's key")
	read(labelValueKey, &chosen.label.Value, "a label's value")
	if err != nil {
		return settings{}, err
	}
	for _, kind := range kinds() {
		err = errors.Join(c.named(kind, namespace, &chosen), c.selected(kind, namespace, &chosen))
		if err != nil {
			return settings{}, err
		}
	}
	if labelOff {
		chosen.label = nil
		return chosen, nil
	}
	return chosen, checkLabel(*chosen.label)
}

// checkLabel refuses what the API server would refuse of a label.
func checkLabel(label route.Label) error {
	if faults := validation.IsQualifiedName(label.Key); len(faults) > 0 {
		return fmt.Errorf("%s.%s is %.80q, which cannot be a label's key: %s", configField, labelKeyKey, label.Key, strings.Join(faults, "; "))
	}
	if faults := validation.IsValidLabelValue(label.Value); len(faults) > 0 {
		return fmt.Errorf("%s.%s is %.80q, which cannot be a label's value: %s", configField, labelValueKey, label.Value, strings.Join(faults, "; "))
	}
	return nil
}

// named adds the routes of kind that the configuration names: those of the list, then the single one, which takes header routes.
func (c configuration) named(kind route.Kind, namespace string, to *settings) error {
	list, single, ruleKey := prefix(kind)+"s", prefix(kind), prefix(kind)+"RuleName"
	var entries []entry
	if value, given := c[list]; given {
		decoder := json.NewDecoder(bytes.NewReader(value))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&entries); err != nil {
			return fmt.Errorf("%s.%s is %.80s: write a list of {name, namespace, ruleName, useHeaderRoutes}: %w", configField, list, value, err)
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
	alone := entry{Namespace: namespace, UseHeaderRoutes: true}
	for key, into := range map[string]*string{single: &alone.Name, ruleKey: &alone.RuleName} {
		if value, given := c[key]; given && json.Unmarshal(value, into) != nil {
			return fmt.Errorf("%s.%s is %.80s: write a name", configField, key, value)
		}
	}
	if alone.Name == "" && alone.RuleName == "" {
		return nil
	}
	return to.add(kind, alone, configField+"."+single)
}

// add adds a route. One that is there already may only add that it takes header routes.
func (s *settings) add(kind route.Kind, e entry, field string) error {
	if faults := validation.IsDNS1123Subdomain(e.Name); len(faults) > 0 {
		return fmt.Errorf("%s names %.80q, which cannot be a route's name: %s", field, e.Name, strings.Join(faults, "; "))
	}
	if faults := validation.IsDNS1123Label(e.Namespace); len(faults) > 0 {
		return fmt.Errorf("%s is in namespace %.80q, which cannot be a namespace's name: %s", field, e.Namespace, strings.Join(faults, "; "))
	}
	added := reference{
		kind: kind, name: types.NamespacedName{Namespace: e.Namespace, Name: e.Name}, ruleName: e.RuleName, headerRoutes: e.UseHeaderRoutes, field: field,
	}
	at := slices.IndexFunc(s.routes, func(t reference) bool { return t.kind == kind && t.name == added.name })
	if at < 0 {
		s.routes = append(s.routes, added)
		return nil
	}
	if s.routes[at].ruleName != added.ruleName {
		return fmt.Errorf("%s names %s again, with another ruleName than %s: name it once; without a ruleName, every rule with both Services is meant",
			field, added, s.routes[at].field)
	}
	s.routes[at].headerRoutes = s.routes[at].headerRoutes || added.headerRoutes
	return nil
}

// selected adds the selection of kind, if there is one.
func (c configuration) selected(kind route.Kind, namespace string, to *settings) error {
	key := prefix(kind) + "Selector"
	value, given := c[key]
	if !given {
		return nil
	}
	var selector metav1.LabelSelector
	if err := json.Unmarshal(value, &selector); err != nil {
		return fmt.Errorf("%s.%s is %.80s: write a label selector, such as {matchLabels: {app: shop}}", configField, key, value)
	}
	parsed, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return fmt.Errorf("%s.%s: %w", configField, key, err)
	}
	to.selections = append(to.selections, selection{kind: kind, namespace: namespace, labels: parsed, field: configField + "." + key})
	return nil
}
