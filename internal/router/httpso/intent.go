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

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/split"
)

const (
	// configField is where a Rollout configures this router, as messages name it.
	configField = `spec.strategy.canary.trafficRouting.plugins["` + Type + `"]`
	// objectKey is the only key of that configuration: the name of an HTTPScaledObject in the Rollout's namespace.
	objectKey = "httpScaledObjectName"
)

// intent is what a call asks for, worked out from the Rollout alone.
type intent struct {
	rollout string               // namespace/name, for messages
	object  types.NamespacedName // the HTTPScaledObject to write to
	shares  router.Shares
}

// intentOf works out what a SetWeight or VerifyWeight with these arguments asks for, or which field of the Rollout is wrong.
func intentOf(rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) (intent, error) {
	shares, err := router.SharesOf(rollout, weight, others)
	if err != nil {
		return intent{}, err
	}
	object, err := objectName(rollout)
	if err != nil {
		return intent{}, fmt.Errorf("rollout %q: %w", router.NameOf(rollout), err)
	}
	want := intent{
		rollout: router.NameOf(rollout),
		object:  types.NamespacedName{Namespace: rollout.Namespace, Name: object},
		shares:  shares,
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

// text is the annotation that object should carry; empty means none.
//
// Without the annotation every request goes to the Service that object itself names, which is the stable one. Where it is not (the Services of a ping-pong
// Rollout change places after each promotion, or the object names the canary Service), a single entry keeps the requests on the stable Service.
func (i intent) text(object *httpv1alpha1.HTTPScaledObject) string {
	own, stable, canary := object.Spec.ScaleTargetRef.Service, i.shares.Stable.Service, i.shares.Canary.Service
	switch {
	case !i.shares.Idle():
		return split.Format(i.backends())
	case own == canary, i.shares.PingPong && own != stable:
		return split.Format([]split.Backend{split.Backend(i.shares.Stable)})
	default:
		return ""
	}
}

// holds says whether object carries the annotation exactly as text has it, to the byte: another notation of the same shares is not ours.
func (i intent) holds(object *httpv1alpha1.HTTPScaledObject) bool {
	live, present := object.Annotations[httpv1alpha1.AnnotationWeightedBackends]
	text := i.text(object)
	return live == text && present == (text != "")
}

// objectName reads the router's configuration in rollout: an object with httpScaledObjectName and nothing else, so that a mistyped key is noticed.
func objectName(rollout *v1alpha1.Rollout) (string, error) {
	const remedy = "write {" + objectKey + ": <name of an HTTPScaledObject in the Rollout's namespace>} there"
	var raw json.RawMessage
	if routing := rollout.Spec.Strategy.Canary.TrafficRouting; routing != nil {
		raw = routing.Plugins[Type]
	}
	if len(raw) == 0 {
		return "", fmt.Errorf("%s is missing: %s", configField, remedy)
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(raw, &config); err != nil || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return "", fmt.Errorf("%s is %.80s, not an object: %s", configField, raw, remedy)
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if key != objectKey {
			return "", fmt.Errorf("%s has the unknown key %.80q: remove it, the only key is %s", configField, key, objectKey)
		}
	}
	var name string
	if err := json.Unmarshal(config[objectKey], &name); err != nil || name == "" {
		return "", fmt.Errorf("%s.%s is missing or not a name: %s", configField, objectKey, remedy)
	}
	if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
		return "", fmt.Errorf("%s.%s is %.80q, which cannot be an object's name: %s", configField, objectKey, name, strings.Join(faults, "; "))
	}
	return name, nil
}
