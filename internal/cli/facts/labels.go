package facts

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
)

// The labels of this project's objects
// (https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/). LabelName and LabelComponent
// select Pods: the KEDA HTTP add-on and Kedify have used the same values. LabelPartOf identifies this project.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelComponent = "app.kubernetes.io/component"
	LabelPartOf    = "app.kubernetes.io/part-of"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelVersion   = "app.kubernetes.io/version"
	// ComponentsName is the value of LabelName of the interceptor, the scaler and the agent.
	ComponentsName = "http-add-on"
	// PartOf is the value of LabelPartOf and LabelInstance.
	PartOf = "kedify-http"
)

// accountPrefix is the start of the names of the components' ServiceAccounts.
const accountPrefix = "kedify-http-"

// Component returns the component of this project that a Deployment runs, such as interceptor. It is empty for
// Deployments of other products, also if they have the same names and components. Manifests of earlier versions have no
// label LabelPartOf, but the same ServiceAccounts.
func Component(deployment *appsv1.Deployment) string {
	component := deployment.Labels[LabelComponent]
	if deployment.Labels[LabelName] != ComponentsName {
		return ""
	}
	product, hasProduct := deployment.Labels[LabelPartOf]
	if product == PartOf || (!hasProduct && IsAccountOf(deployment.Spec.Template.Spec.ServiceAccountName, component)) {
		return component
	}
	return ""
}

// KedifyAgentName is the value of LabelName of Kedify's agent (github.com/kedify/charts, chart kedify-agent).
const KedifyAgentName = "kedify-agent"

// The products that change the same HTTPScaledObjects as this project's components.
const (
	ProductAddOn  = "the KEDA HTTP add-on"
	ProductKedify = "Kedify's agent"
)

// OtherProduct returns the product of a Deployment that must not run next to the components of this project:
// ProductAddOn or ProductKedify. It is empty for any other Deployment.
func OtherProduct(deployment *appsv1.Deployment) string {
	const addOnProduct, addOnAccount = "keda", "keda-add-ons-http-"
	switch deployment.Labels[LabelName] {
	case KedifyAgentName:
		return ProductKedify
	case ComponentsName:
		if strings.HasPrefix(deployment.Labels[LabelPartOf], addOnProduct) ||
			strings.HasPrefix(deployment.Spec.Template.Spec.ServiceAccountName, addOnAccount) &&
				Component(deployment) == "" {
			return ProductAddOn
		}
	}
	return ""
}

// IsAccountOf reports whether a ServiceAccount is that of a component of this project.
func IsAccountOf(account, component string) bool {
	name, isOurs := strings.CutPrefix(account, accountPrefix)
	return isOurs && name == component
}
