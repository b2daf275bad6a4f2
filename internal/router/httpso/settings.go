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
	// objectKey is the name of an HTTPScaledObject in the Rollout's namespace. Required.
	objectKey = "httpScaledObjectName"
	// verifyKey decides whether a weight counts as verified only after the proxies have ACKed it. Default true.
	verifyKey = "verifyDataPlane"
	// stickinessKey decides which version receives the requests of a client. Default: each request is decided on its own.
	stickinessKey = "stickiness"
)

// settings is the router's configuration in a Rollout.
type settings struct {
	engine.Settings

	object     string // name of the HTTPScaledObject
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
		case objectKey: // required, so parsed below
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
			err = fmt.Errorf("%s has the unknown key %.80q: remove it, the keys are %s, %s, %s, %s, %s and %s", configField,
				key, objectKey, engine.ImmediateAbortKey, engine.LimitWeightKey, engine.SafePromotionKey, stickinessKey, verifyKey)
		}
		if err != nil {
			return settings{}, err
		}
	}
	if err := json.Unmarshal(config[objectKey], &chosen.object); err != nil || chosen.object == "" {
		return settings{}, fmt.Errorf("%s.%s is missing or not a name: %s", configField, objectKey, fix)
	}
	if problems := validation.IsDNS1123Subdomain(chosen.object); len(problems) > 0 {
		return settings{}, fmt.Errorf("%s.%s is %.80q, which cannot be an object's name: %s", configField, objectKey,
			chosen.object, strings.Join(problems, "; "))
	}
	return chosen, nil
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
