package routertest

import (
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// configField is the router's configuration in a Rollout, as messages name it.
const configField = `spec.strategy.canary.trafficRouting.plugins["kedify/http"]`

// stickinessField begins the errors of the key stickiness, which concern the weights of an object.
const stickinessField = `HTTPScaledObject "shop/web" of rollout "shop/web": ` + configField + `.stickiness`

// UnprivilegedAccount is the account of a plugin without permissions, in the situation Forbidden.
const UnprivilegedAccount = "system:serviceaccount:default:unprivileged"

// Annotations of ScaledObject for the Rollout of this package.
const (
	// At20 is the split at weight 20.
	At20 = "- service: web-stable\n  weight: 80\n- service: web-canary\n  weight: 20\n"
	// At100 is the split at weight 100.
	At100 = "- service: web-stable\n  weight: 0\n- service: web-canary\n  weight: 100\n"
)

// Situation is a condition of the cluster during a call.
type Situation int

const (
	// Usual is a cluster without anything special.
	Usual Situation = iota
	// Forbidden is a plugin that runs as UnprivilegedAccount.
	Forbidden
	// Shared is an HTTPScaledObject whose weights the Rollout shop/api already sets.
	Shared
)

// InvalidCall is a SetWeight with a user's error, for the Rollout shop/web on the HTTPScaledObject shop/web, and its
// result.
type InvalidCall struct {
	// Name describes the error.
	Name string
	// Config is the configuration in the Rollout. Empty means the valid one, "-" none.
	Config string
	// Change changes the Rollout. May be nil.
	Change func(*v1alpha1.CanaryStrategy)
	// Annotation is the text of weighted-backends before the call; empty means no annotation.
	Annotation string
	// Situation is the condition of the cluster.
	Situation Situation
	// Weight and Others are the arguments.
	Weight int32
	// Others are the weights of an experiment.
	Others []v1alpha1.WeightDestination
	// Want is the exact text of the error, which the controller shows in the Rollout's Events. It is empty if the call
	// succeeds.
	Want string
	// After is the annotation after the call, "=" if it is unchanged.
	After string
}

// Rollout returns the Rollout of the call.
func (c InvalidCall) Rollout(plugin string) *v1alpha1.Rollout {
	config := c.Config
	switch config {
	case "":
		config = `{"httpScaledObjectName":"web"}`
	case "-":
		config = ""
	}
	rollout := Rollout(plugin, config)
	if c.Change != nil {
		c.Change(rollout.Spec.Strategy.Canary)
	}
	if len(rollout.Spec.Strategy.Canary.Steps) > 0 { // at the first step of a canary
		rollout.Annotations = map[string]string{"rollout.argoproj.io/revision": "2"}
		rollout.Status.StableRS, rollout.Status.CurrentPodHash = "old", "new"
	}
	return rollout
}

// AfterText returns the annotation after the call.
func (c InvalidCall) AfterText() string {
	if c.After == "=" {
		return c.Annotation
	}
	return c.After
}

// InvalidCalls returns the table of invalid calls, one row per case.
func InvalidCalls() []InvalidCall {
	return slices.Concat(invalidConfigurations(), invalidManagedRoutes(), invalidStrategies(), unusableObjects(),
		overwrittenAnnotations())
}

// invalidStrategies returns the rows about weights and Services of the Rollout.
func invalidStrategies() []InvalidCall {
	const canary = "spec.strategy.canary."
	return []InvalidCall{
		{
			Name: "weight below 0", Weight: -1, After: "=",
			Want: `rollout "shop/web": the canary weight -1 is negative: correct setWeight in ` + canary + `steps`,
		},
		{
			Name: "weight above the maximum", Weight: 101, After: "=",
			Want: `rollout "shop/web": the canary weight 101 is above 100: correct setWeight in ` + canary + `steps`,
		},
		{
			Name: "an experiment with too much weight", Weight: 60,
			Others: []v1alpha1.WeightDestination{{ServiceName: "try", Weight: 50}}, After: "=",
			Want: `rollout "shop/web": the weights of the canary and the experiment add up to 110, above 100: lower setWeight ` +
				`or the weights of the ` +
				`experiment's templates in ` + canary + `steps`,
		},
		{
			Name: "no stable Service", Change: func(s *v1alpha1.CanaryStrategy) { s.StableService = "" }, Weight: 20, After: "=",
			Want: `rollout "shop/web": ` + canary + `stableService is empty: name the Service there`,
		},
		{
			Name: "no canary Service", Change: func(s *v1alpha1.CanaryStrategy) { s.CanaryService = "" }, Weight: 20, After: "=",
			Want: `rollout "shop/web": ` + canary + `canaryService is empty: name the Service there`,
		},
		{
			Name: "one Service for both", Change: func(s *v1alpha1.CanaryStrategy) { s.CanaryService = "web-stable" },
			Weight: 20, After: "=",
			Want: `rollout "shop/web": the Services of spec.strategy.canary and its experiments: entry 2: duplicate service ` +
				`"web-stable"`,
		},
	}
}

// unusableObjects returns the rows about HTTPScaledObjects that the router cannot read or must not write.
func unusableObjects() []InvalidCall {
	return []InvalidCall{
		{
			Name: "no such HTTPScaledObject", Config: `{"httpScaledObjectName":"wbe"}`, Weight: 20, After: "=",
			Want: `HTTPScaledObject "shop/wbe" of rollout "shop/web": httpscaledobjects.http.keda.sh "wbe" not found: create ` +
				`it (and install the ` +
				`CustomResourceDefinition httpscaledobjects.http.keda.sh if it is missing), or correct ` + configField +
				`.httpScaledObjectName`,
		},
		{
			Name: "no such HTTPScaledObject, and no canary weight", Config: `{"httpScaledObjectName":"wbe"}`, Weight: 0,
			After: "=",
		},
		{
			Name: "no permission", Situation: Forbidden, Weight: 20, After: "=",
			Want: `HTTPScaledObject "shop/web" of rollout "shop/web": httpscaledobjects.http.keda.sh "web" is forbidden: ` +
				`User "` + UnprivilegedAccount +
				`" cannot get resource "httpscaledobjects" in API group "http.keda.sh" in the namespace "shop": allow the ` +
				`controller's ` +
				`ServiceAccount to get and patch httpscaledobjects: apply the ClusterRole and ClusterRoleBinding ` +
				`argo-rollouts-kedify-http`,
		},
		{
			Name: "a second Rollout", Situation: Shared, Annotation: At20, Weight: 20, After: "=",
			Want: `HTTPScaledObject "shop/web" of rollout "shop/web": another Rollout already sets its weights: rollout ` +
				`"shop/api": give rollout "shop/web" ` +
				`an HTTPScaledObject of its own in ` + configField + `.httpScaledObjectName`,
		},
	}
}

// overwrittenAnnotations returns the rows about annotations that the router replaces or removes.
func overwrittenAnnotations() []InvalidCall {
	return []InvalidCall{
		{Name: "an annotation that is not YAML, which is overwritten", Annotation: "{{{", Weight: 20, After: At20},
		{
			Name: "a huge annotation, which is overwritten", Annotation: strings.Repeat("- {service: a, weight: 1}\n", 8000),
			Weight: 20, After: At20,
		},
		{
			Name: "an annotation with aliases, which is overwritten", Annotation: "- &a {service: a, weight: 1}\n- *a\n",
			Weight: 20, After: At20,
		},
		{
			Name: "weights that are all zero, which are overwritten", Annotation: "- {service: a, weight: 0}\n", Weight: 20,
			After: At20,
		},
		{
			Name: "a manual edit, which is removed after the canary", Annotation: "- {service: web-canary, weight: 100}\n",
			Weight: 0, After: "",
		},
	}
}

// invalidManagedRoutes returns the rows about header and mirror routes.
func invalidManagedRoutes() []InvalidCall {
	const field = `rollout "shop/web": the steps setHeaderRoute and setMirrorRoute of spec.strategy.canary.steps: `
	header := func(value v1alpha1.StringMatch) func(*v1alpha1.CanaryStrategy) {
		return func(s *v1alpha1.CanaryStrategy) {
			match := []v1alpha1.HeaderRoutingMatch{{HeaderName: "role", HeaderValue: &value}}
			s.Steps = []v1alpha1.CanaryStep{{SetHeaderRoute: &v1alpha1.SetHeaderRoute{Name: "qa", Match: match}}}
		}
	}
	mirror := func(match v1alpha1.RouteMatch) func(*v1alpha1.CanaryStrategy) {
		return func(s *v1alpha1.CanaryStrategy) {
			s.Steps = []v1alpha1.CanaryStep{{SetMirrorRoute: &v1alpha1.SetMirrorRoute{
				Name:  "copy",
				Match: []v1alpha1.RouteMatch{match},
			}}}
		}
	}
	const regex = field + `route "qa": match 1: header "role": not a regular expression that Envoy accepts: `
	return []InvalidCall{
		{
			Name: "a header route with an invalid regular expression", Change: header(v1alpha1.StringMatch{Regex: "qa("}),
			After: "=",
			Want:  regex + `"qa(": missing closing ): correct it (RE2 syntax)`,
		},
		{
			Name:   "a header route with a regular expression that is too large for Envoy",
			Change: header(v1alpha1.StringMatch{Regex: "[a-z]{200}"}), After: "=",
			Want: regex + `"[a-z]{200}": its RE2 program may have 213 instructions, and Envoy allows at most 100: shorten it, ` +
				`repeat less often, or use exact or prefix`,
		},
		{
			Name: "a header route without a value", Change: header(v1alpha1.StringMatch{}), After: "=",
			Want: field + `route "qa": match 1: header "role": invalid condition: there is no value: write one under exact, ` +
				`prefix or regex`,
		},
		{
			Name: "a mirror route with an invalid " +
				"path", Change: mirror(v1alpha1.RouteMatch{Path: &v1alpha1.StringMatch{Prefix: "v1"}}), After: "=",
			Want: field + `route "copy": match 1: path: invalid condition: "v1": must begin with /`,
		},
	}
}

// invalidConfigurations returns the rows about the router's configuration in a Rollout.
func invalidConfigurations() []InvalidCall {
	const example = `write {httpScaledObjectName: <name of an HTTPScaledObject in the Rollout's namespace>} there`
	return []InvalidCall{
		{
			Name: "no configuration", Config: "-", Weight: 20, After: "=",
			Want: `rollout "shop/web": ` + configField + ` is missing: ` + example,
		},
		{
			Name: "a configuration that is not an object", Config: `"web"`, Weight: 20, After: "=",
			Want: `rollout "shop/web": ` + configField + ` is "web", not an object: ` + example,
		},
		{
			Name: "an unknown key", Config: `{"httpScaledObjectName":"web","namespace":"b"}`, Weight: 20, After: "=",
			Want: `rollout "shop/web": ` + configField + ` has the unknown key "namespace": remove it, the keys are ` +
				`httpScaledObjectName, immediateAbort, interceptorRoute, limitWeightToReadyPods, safePromotion, stickiness and ` +
				`verifyDataPlane`,
		},
		{
			Name: "an option that is not a boolean", Config: `{"httpScaledObjectName":"web","verifyDataPlane":"no"}`, Weight: 20,
			After: "=",
			Want:  `rollout "shop/web": ` + configField + `.verifyDataPlane is "no": write true or false`,
		},
		{
			Name:   "stickiness by nothing",
			Config: `{"httpScaledObjectName":"web","stickiness":true}`, Weight: 20, After: "=",
			Want: stickinessField + `: not a mapping with one of the keys cookie, header and ` +
				`sourceAddress: write {cookie: {}} or {header: <name>} there`,
		},
		{
			Name:   "stickiness by two things",
			Config: `{"httpScaledObjectName":"web","stickiness":{"cookie":{},"header":"x-user"}}`, Weight: 20, After: "=",
			Want: stickinessField + `: not a mapping with one of the keys cookie, header and ` +
				`sourceAddress: 2 of them are set: write exactly one: write {cookie: {}} or {header: <name>} there`,
		},
		{
			Name:   "a cookie that browsers reject",
			Config: `{"httpScaledObjectName":"web","stickiness":{"cookie":{"sameSite":"None"}}}`, Weight: 20, After: "=",
			Want: stickinessField + `: invalid cookie: sameSite None: browsers accept it only ` +
				`with secure: true: set that too`,
		},
		{
			Name:   "a header that names no client",
			Config: `{"httpScaledObjectName":"web","stickiness":{"header":"Host"}}`, Weight: 20, After: "=",
			Want: stickinessField + `: invalid header: name "Host": it does not identify a ` +
				`client: name a header such as x-user-id`,
		},
		{
			Name: "no name", Config: `{}`, Weight: 20, After: "=",
			Want: `rollout "shop/web": ` + configField + `.httpScaledObjectName is missing or not a name: ` + example,
		},
	}
}
