package httpso

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
)

const (
	// configField is the field of a Rollout that configures this router, as messages name it.
	configField = `spec.strategy.canary.trafficRouting.plugins["` + Type + `"]`
	// objectKey is the name of an HTTPScaledObject in the Rollout's namespace, and routeKey that of an InterceptorRoute.
	// One of them is required.
	objectKey, routeKey = "httpScaledObjectName", "interceptorRoute"
	// verifyKey decides whether a weight counts as verified only after the proxies have ACKed it. Default true.
	verifyKey = "verifyDataPlane"
	// stickinessKey decides which version receives the requests of a client. Default: each request is decided on its own.
	stickinessKey = "stickiness"
)

// settings is the router's configuration in a Rollout.
type settings struct {
	engine.Settings

	object     string // name of the HTTPScaledObject or InterceptorRoute
	isRoute    bool   // the object is an InterceptorRoute
	stickiness affinity.Key
	// stickinessErr is the error of stickinessKey. It concerns only requests that raise a weight: see target.Plan.
	stickinessErr error
}

// settingsOf parses the router's configuration in rollout. Unknown keys are errors, so that a misspelled key is
// noticed.
func settingsOf(rollout *v1alpha1.Rollout) (settings, error) {
	const fix = "write {" + objectKey + ": <name of an HTTPScaledObject in the Rollout's namespace>} there"
	config, err := engine.ParseConfig(rollout, Type, fix)
	if err != nil {
		return settings{}, err
	}
	chosen := settings{Settings: engine.DefaultSettings()}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		var err error
		switch key {
		case objectKey, routeKey: // parsed below
		case verifyKey:
			chosen.VerifyDataPlane, err = parseBool(config, key)
		case engine.SafePromotionKey:
			chosen.SafePromotion, err = parseBool(config, key)
		case engine.ImmediateAbortKey:
			chosen.ImmediateAbort, err = parseBool(config, key)
		case engine.LimitWeightKey:
			var isOn bool
			isOn, err = parseBool(config, key)
			chosen.WeightLimit = engine.WeightLimitOf(isOn)
		case stickinessKey:
			chosen.stickiness, chosen.stickinessErr = parseStickiness(config[key])
		default:
			err = fmt.Errorf("%s has the unknown key %.80q: remove it, the keys are %s, %s, %s, %s, %s, %s and %s", configField,
				key, objectKey, engine.ImmediateAbortKey, routeKey, engine.LimitWeightKey, engine.SafePromotionKey, stickinessKey,
				verifyKey)
		}
		if err != nil {
			return settings{}, err
		}
	}
	return chosen, chosen.setObject(config, fix)
}

// setObject parses the name of the object. fix is the fix for a missing name.
func (s *settings) setObject(config map[string]json.RawMessage, fix string) error {
	_, hasObject := config[objectKey]
	key := objectKey
	if _, s.isRoute = config[routeKey]; s.isRoute {
		key = routeKey
		fix = "write the name of an InterceptorRoute in the Rollout's namespace there"
	}
	if s.isRoute && hasObject {
		return fmt.Errorf("%s has both %s and %s: remove one", configField, objectKey, routeKey)
	}
	if err := json.Unmarshal(config[key], &s.object); err != nil || s.object == "" {
		return fmt.Errorf("%s.%s is missing or not a name: %s", configField, key, fix)
	}
	if problems := validation.IsDNS1123Subdomain(s.object); len(problems) > 0 {
		return fmt.Errorf("%s.%s is %.80q, which cannot be an object's name: %s", configField, key, s.object,
			strings.Join(problems, "; "))
	}
	return nil
}

// parseStickiness parses the key stickiness, whose value is that of the annotation.
func parseStickiness(value json.RawMessage) (affinity.Key, error) {
	key, err := affinity.Parse(string(value))
	switch {
	case errors.Is(err, affinity.ErrCookie), errors.Is(err, affinity.ErrHeader):
		return affinity.Key{}, fmt.Errorf("%s.%s: %w", configField, stickinessKey, err)
	case err != nil:
		return affinity.Key{}, fmt.Errorf("%s.%s: %w: write {cookie: {}} or {header: <name>} there", configField,
			stickinessKey, err)
	}
	return key, nil
}

// parseBool parses a boolean key of the configuration.
func parseBool(config map[string]json.RawMessage, key string) (bool, error) {
	switch text := string(config[key]); text {
	case "true", "false":
		return text == "true", nil
	default:
		return false, fmt.Errorf("%s.%s is %.80s: write true or false", configField, key, text)
	}
}
