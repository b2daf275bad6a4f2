package httpso

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/promotion"
	"github.com/kedify/argo-rollouts-plugin/internal/split"
)

const (
	// configField is where a Rollout configures this router, as messages name it.
	configField = `spec.strategy.canary.trafficRouting.plugins["` + Type + `"]`
	// objectKey is the key there for the name of an HTTPScaledObject in the Rollout's namespace. It is required.
	objectKey = "httpScaledObjectName"
	// verifyKey is the key for whether weights are verified by what the proxies took. Default true.
	verifyKey = "verifyDataPlane"
	// promotionKey is the key for whether a promotion waits until the stable Service has the promoted Pods. Default true.
	promotionKey = promotion.OptOutKey
)

// settings are what a Rollout configures of this router.
type settings struct {
	object          string // name of the HTTPScaledObject
	verifyDataPlane bool
	safePromotion   bool
}

// intent is what a call asks for, worked out from the Rollout alone.
type intent struct {
	settings

	rollout string               // namespace/name, for messages
	object  types.NamespacedName // the HTTPScaledObject to write to
	owner   owner                // the Rollout, as the object's mark names it
	shares  router.Shares
}

// intentOf works out what a SetWeight or VerifyWeight with these arguments asks for, or which field of the Rollout is wrong.
func intentOf(rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) (intent, error) {
	shares, err := router.SharesOf(rollout, weight, others)
	if err != nil {
		return intent{}, err
	}
	chosen, err := settingsOf(rollout)
	if err != nil {
		return intent{}, fmt.Errorf("rollout %q: %w", router.NameOf(rollout), err)
	}
	want := intent{
		settings: chosen,
		rollout:  router.NameOf(rollout),
		object:   types.NamespacedName{Namespace: rollout.Namespace, Name: chosen.object},
		owner:    ownerOf(rollout),
		shares:   shares,
	}
	if err := split.Validate(want.backends()); err != nil {
		return intent{}, fmt.Errorf("rollout %q: the Services of spec.strategy.canary and its experiments cannot share requests: %w", want.rollout, err)
	}
	return want, nil
}

// backends are the shares in the order of the annotation: stable, canary, others.
func (i intent) backends() []split.Backend {
	backends := []split.Backend{split.Backend(i.shares.Stable), split.Backend(i.shares.Canary)}
	for _, other := range i.shares.Others {
		backends = append(backends, split.Backend(other))
	}
	return backends
}

// text is the annotation that found should carry; empty means none.
//
// Without the annotation every request goes to the Service that the object itself names, which is the stable one. Where it is not (the Services of a ping-pong
// Rollout change places after each promotion, or the object names the canary Service), a single entry keeps the requests on the stable Service.
func (i intent) text(found *object) string {
	stable, canary := i.shares.Stable.Service, i.shares.Canary.Service
	switch {
	case !i.shares.Idle():
		return split.Format(i.backends())
	case found.service == canary, i.shares.PingPong && found.service != stable:
		return split.Format([]split.Backend{split.Backend(i.shares.Stable)})
	default:
		return ""
	}
}

// mark is the owner's mark that found should carry: this Rollout's beside weights, and none without, where the one there is not another's leftover.
func (i intent) mark(found *object) string {
	if i.text(found) != "" {
		return i.owner.String()
	}
	if other, marked := parseOwner(found.owner, found.name.Namespace); marked && other.rollout != i.owner.rollout && !found.present {
		return found.owner
	}
	return ""
}

// holds says whether found carries the annotation exactly as text has it, to the byte: another notation of the same shares is not ours.
func (i intent) holds(found *object) bool {
	text := i.text(found)
	return found.text == text && found.present == (text != "")
}

// full says whether the canary gets every request, as before the old ReplicaSet is scaled down.
func (i intent) full() bool { return i.shares.Stable.Weight == 0 && i.shares.Canary.Weight > 0 }

// settingsOf reads the router's configuration in rollout: an object with the keys of this router and nothing else, so that a mistyped key is noticed.
func settingsOf(rollout *v1alpha1.Rollout) (settings, error) {
	const remedy = "write {" + objectKey + ": <name of an HTTPScaledObject in the Rollout's namespace>} there"
	var raw json.RawMessage
	if routing := rollout.Spec.Strategy.Canary.TrafficRouting; routing != nil {
		raw = routing.Plugins[Type]
	}
	if len(raw) == 0 {
		return settings{}, fmt.Errorf("%s is missing: %s", configField, remedy)
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(raw, &config); err != nil || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return settings{}, fmt.Errorf("%s is %.80s, not an object: %s", configField, raw, remedy)
	}
	chosen := settings{verifyDataPlane: true, safePromotion: true}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		var err error
		switch key {
		case objectKey: // below, because it has to be there
		case verifyKey:
			chosen.verifyDataPlane, err = flag(config, key)
		case promotionKey:
			chosen.safePromotion, err = flag(config, key)
		default:
			err = fmt.Errorf("%s has the unknown key %.80q: remove it, the keys are %s, %s and %s", configField, key, objectKey, promotionKey, verifyKey)
		}
		if err != nil {
			return settings{}, err
		}
	}
	if err := json.Unmarshal(config[objectKey], &chosen.object); err != nil || chosen.object == "" {
		return settings{}, fmt.Errorf("%s.%s is missing or not a name: %s", configField, objectKey, remedy)
	}
	if faults := validation.IsDNS1123Subdomain(chosen.object); len(faults) > 0 {
		return settings{}, fmt.Errorf("%s.%s is %.80q, which cannot be an object's name: %s", configField, objectKey, chosen.object, strings.Join(faults, "; "))
	}
	return chosen, nil
}

// flag reads a key of the configuration that is true or false.
func flag(config map[string]json.RawMessage, key string) (bool, error) {
	switch text := string(config[key]); text {
	case "true", "false":
		return text == "true", nil
	default:
		return false, fmt.Errorf("%s.%s is %.80s: write true or false", configField, key, text)
	}
}
