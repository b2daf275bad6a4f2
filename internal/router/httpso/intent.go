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

	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
)

const (
	// configField is where a Rollout configures this router, as messages name it.
	configField = `spec.strategy.canary.trafficRouting.plugins["` + Type + `"]`
	// objectKey is the key there for the name of an HTTPScaledObject in the Rollout's namespace. It is required.
	objectKey = "httpScaledObjectName"
	// verifyKey is the key for whether weights are verified by what the proxies took. Default true.
	verifyKey = "verifyDataPlane"
)

// settings are what a Rollout configures of this router.
type settings struct {
	engine.Settings

	object string // name of the HTTPScaledObject
}

// intent is what is asked of one HTTPScaledObject.
type intent struct {
	rollout string               // namespace/name, for messages
	object  types.NamespacedName // the HTTPScaledObject to write to
	owner   owner                // the Rollout, as the object's mark names it
	shares  router.Shares
	weigh   bool                 // whether the shares are asked for; else they stay as they are
	managed []managedroute.Route // all header and mirror routes
}

// backends are the shares in the order of the annotation: stable, canary, others.
func (i intent) backends() []split.Backend {
	backends := []split.Backend{split.Backend(i.shares.Stable), split.Backend(i.shares.Canary)}
	for _, other := range i.shares.Others {
		backends = append(backends, split.Backend(other))
	}
	return backends
}

// texts are the annotations that found should carry, the weights and the header and mirror routes; empty means none.
//
// Without the former every request goes to the Service that the object itself names, which is the stable one. Where it is not (the Services of a ping-pong
// Rollout change places after each promotion, or the object names the canary Service), a single entry keeps the requests on the stable Service. Header and
// mirror routes are about the canary that the weights name second, so beside them there are weights, at 0 too.
func (i intent) texts(found *object) (weights, managed string) {
	managed = managedroute.Format(i.managed)
	stable, canary := i.shares.Stable.Service, i.shares.Canary.Service
	switch {
	case !i.weigh && (managed == "" || i.isSecond(found.text, canary)):
		return found.text, managed
	case managed != "" || !i.shares.Idle():
		return split.Format(i.backends()), managed
	case found.service == canary, i.shares.PingPong && found.service != stable:
		return split.Format([]split.Backend{split.Backend(i.shares.Stable)}), ""
	default:
		return "", ""
	}
}

// isSecond says whether weights name the canary Service where header and mirror routes look for it.
func (intent) isSecond(weights, canary string) bool {
	backends, err := split.Parse(weights)
	return err == nil && len(backends) > 1 && backends[1].Service == canary
}

// mark is the owner's mark that found should carry: this Rollout's beside weights, and none without, where the one there is not another's leftover.
func (i intent) mark(found *object) string {
	if weights, _ := i.texts(found); weights != "" {
		return i.owner.String()
	}
	if other, marked := parseOwner(found.owner, found.name.Namespace); marked && other.rollout != i.owner.rollout && !found.present {
		return found.owner
	}
	return ""
}

// holds says whether found carries the annotations exactly as texts has them, to the byte: another notation of the same shares is not ours.
func (i intent) holds(found *object) bool {
	weights, managed := i.texts(found)
	return found.text == weights && found.present == (weights != "") && found.managed == managed && found.isManaged == (managed != "")
}

// settingsOf reads the router's configuration in rollout: an object with the keys of this router and nothing else, so that a mistyped key is noticed.
func settingsOf(rollout *v1alpha1.Rollout) (settings, error) {
	const remedy = "write {" + objectKey + ": <name of an HTTPScaledObject in the Rollout's namespace>} there"
	raw := engine.ConfigOf(rollout, Type)
	if len(raw) == 0 {
		return settings{}, fmt.Errorf("%s is missing: %s", configField, remedy)
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(raw, &config); err != nil || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return settings{}, fmt.Errorf("%s is %.80s, not an object: %s", configField, raw, remedy)
	}
	chosen := settings{Settings: engine.Settings{VerifyDataPlane: true, SafePromotion: true, ImmediateAbort: true}}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		var err error
		switch key {
		case objectKey: // below, because it has to be there
		case verifyKey:
			chosen.VerifyDataPlane, err = flag(config, key)
		case engine.PromotionKey:
			chosen.SafePromotion, err = flag(config, key)
		case engine.AbortKey:
			chosen.ImmediateAbort, err = flag(config, key)
		default:
			err = fmt.Errorf("%s has the unknown key %.80q: remove it, the keys are %s, %s, %s and %s", configField, key, objectKey, engine.AbortKey,
				engine.PromotionKey, verifyKey)
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
