package install

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/registration"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/lease"
)

// ErrInUse reports objects that use the installation.
var ErrInUse = errors.New("still in use: delete these objects first, or use --force")

const (
	kindCRD        = "CustomResourceDefinition"
	kindWebhook    = "MutatingWebhookConfiguration"
	kindDeployment = "Deployment"
)

// Removal describes what to uninstall.
type Removal struct {
	// Facts are the facts of the cluster.
	Facts *facts.Facts
	// All contains every object that Install may have created with any options: uninstalling lists objects of their
	// kinds.
	All []manifests.Object
	// Force also deletes objects that are in use.
	Force bool
}

// Uninstall deletes the objects that Install and the installed components have created. It restores backends before it
// deletes the proxies, and unregisters the routers before it deletes their roles.
func (i *Installer) Uninstall(ctx context.Context, removal Removal) error {
	managed, err := i.managedObjects(ctx, removal.All)
	if err != nil {
		return err
	}
	if err := i.checkUnused(managed, removal); err != nil {
		return err
	}
	// The agent would rewrite restored backends again. Its webhook goes first: without it, the API server needs no
	// agent.
	isFirst := func(reference manifests.Reference) bool {
		return reference.Kind == kindWebhook ||
			reference.Kind == kindDeployment && reference.Name == httpv1alpha1.ManagedByAgent
	}
	isLast := func(reference manifests.Reference) bool { return reference.Kind == kindCRD }
	if err := i.removeMatching(ctx, managed, isFirst); err != nil {
		return err
	}
	if agent := removal.Facts.Agent; agent == nil || agent.Labels[manifests.LabelManagedBy] == manifests.ManagedBy {
		if err := i.restoreBackends(ctx); err != nil {
			return err
		}
	}
	if err := i.unregister(ctx, removal.Facts); err != nil {
		return err
	}
	isOther := func(reference manifests.Reference) bool { return !isFirst(reference) && !isLast(reference) }
	if err := i.removeMatching(ctx, managed, isOther); err != nil {
		return err
	}
	keepsObjects := !slices.ContainsFunc(managed, isLast) && len(removal.Facts.HTTPScaledObjects) > 0
	if err := i.retireLease(ctx, removal.Facts.Interceptor, keepsObjects); err != nil {
		return err
	}
	generated, err := i.agentGenerated(ctx)
	if err != nil {
		return err
	}
	if err := i.removeGenerated(ctx, "agent", removal.Facts.Agent, generated...); err != nil {
		return err
	}
	if err := i.removeMatching(ctx, managed, isLast); err != nil {
		return err
	}
	return i.waitDeleted(ctx, managed, isLast)
}

// agentGenerated returns the objects that the agent creates at runtime. The Secret with the interceptor's certificate
// and the ConfigMap with its CAs are among them if they have the label of the agent.
func (i *Installer) agentGenerated(ctx context.Context) ([]manifests.Reference, error) {
	object := func(kind, name string) manifests.Reference {
		return manifests.Reference{
			APIVersion: "v1", Kind: kind, Namespace: httpv1alpha1.DefaultInterceptorNamespace, Name: name,
		}
	}
	generated := []manifests.Reference{
		leaseReference(httpv1alpha1.ManagedByAgent), object("Secret", httpv1alpha1.ManagedByAgent+"-webhook"),
	}
	for _, candidate := range []manifests.Reference{
		object("Secret", httpv1alpha1.InterceptorTLSSecret), object("ConfigMap", httpv1alpha1.InterceptorCA),
	} {
		live := new(metav1.PartialObjectMetadata)
		exists, err := i.find(ctx, live, candidate.Path()...)
		if exists && live.Labels[httpv1alpha1.LabelManagedBy] == httpv1alpha1.ManagedByAgent {
			generated = append(generated, candidate)
		}
		if err != nil && !apierrors.IsForbidden(err) { // It may not exist.
			return generated, err
		}
	}
	return generated, nil
}

// managedObjects returns the objects that Install has created, in reverse order of creation.
func (i *Installer) managedObjects(ctx context.Context, candidates []manifests.Object) ([]manifests.Reference, error) {
	var all []manifests.Reference
	listed := map[manifests.Reference]bool{}
	for _, object := range slices.Backward(candidates) {
		collection := manifests.Reference{APIVersion: object.APIVersion, Kind: object.Kind}
		if listed[collection] {
			continue
		}
		listed[collection] = true
		objects, err := list[metav1.PartialObjectMetadata](ctx, i, manifests.LabelManagedBy+"="+manifests.ManagedBy,
			collection.Path()...)
		if err != nil {
			return nil, fmt.Errorf("list %ss with label %s: %w", collection.Kind, manifests.LabelManagedBy, err)
		}
		for _, object := range objects {
			reference := collection
			reference.Namespace, reference.Name = object.Namespace, object.Name
			// unregister deletes the controller's ConfigMap when it is empty.
			if reference.Kind != "ConfigMap" || reference.Name != facts.ConfigMapName {
				all = append(all, reference)
			}
		}
	}
	return all, nil
}

// checkUnused fails with ErrInUse if objects use the installation, unless forced.
func (i *Installer) checkUnused(managed []manifests.Reference, removal Removal) error {
	for _, resource := range []facts.Resource{
		facts.Deployments, facts.Plugins, facts.Rollouts, facts.HTTPScaledObjects, facts.ScaledObjects,
	} {
		if err := removal.Facts.Unread[resource]; err != nil {
			return fmt.Errorf("%s cannot be read, so objects in use cannot be determined: %w", resource, err)
		}
	}
	routers, err := registration.Registered(registration.StateOf(removal.Facts.Plugins))
	if err != nil {
		return err
	}
	owned := Owned{Routers: routers}
	for _, reference := range managed {
		owned.HasCRD = owned.HasCRD || reference.Kind == kindCRD
		owned.HasScaler = owned.HasScaler || reference.Kind == kindDeployment &&
			(reference.Name == httpv1alpha1.ManagedByAgent || reference.Name == facts.ScalerService)
	}
	if uses := Uses(removal.Facts, owned); len(uses) > 0 && !removal.Force {
		return fmt.Errorf("%w:\n  %s", ErrInUse, strings.Join(uses, "\n  "))
	}
	return nil
}

// removeMatching deletes the objects that match.
func (i *Installer) removeMatching(ctx context.Context, all []manifests.Reference,
	matches func(manifests.Reference) bool,
) error {
	for _, reference := range all {
		if !matches(reference) {
			continue
		}
		if err := i.remove(ctx, reference); err != nil {
			return err
		}
	}
	return nil
}

// unregister removes the routers from the controller's list, and restarts the controller.
func (i *Installer) unregister(ctx context.Context, cluster *facts.Facts) error {
	if cluster.Controller == nil {
		return nil
	}
	reference := configMapReference(cluster.Controller.Namespace)
	live, err := i.readConfigMap(ctx, reference.Namespace)
	if err != nil {
		return fmt.Errorf("%s: %w", reference, err)
	}
	state, err := registration.Unregister(registration.StateOf(live))
	if err != nil {
		return fmt.Errorf("%s: %w", reference, err)
	}
	if live != nil {
		if err := i.writeRegistration(ctx, reference.Namespace, live, state); err != nil {
			return err
		}
	}
	return i.restartController(ctx,
		manifests.ControllerRelease(types.NamespacedName{
			Namespace: cluster.Controller.Namespace,
			Name:      cluster.Controller.Name,
		}))
}

// removeGenerated deletes the objects that the Pods of a component create at runtime, once no Pod is left that would
// create them again. It does nothing if the Deployment belongs to another owner.
func (i *Installer) removeGenerated(ctx context.Context, component string, deployment *appsv1.Deployment,
	generated ...manifests.Reference,
) error {
	if isForeign(deployment) {
		return nil
	}
	if err := i.waitPodsGone(ctx, component); err != nil {
		return err
	}
	for _, reference := range generated {
		reference.Namespace = httpv1alpha1.DefaultInterceptorNamespace
		if err := i.remove(ctx, reference); err != nil {
			return err
		}
	}
	return nil
}

// isForeign reports whether a Deployment belongs to another owner.
func isForeign(deployment *appsv1.Deployment) bool {
	return deployment != nil && deployment.Labels[manifests.LabelManagedBy] != manifests.ManagedBy
}

// retireLease deletes the Lease of the interceptors, or, if HTTPScaledObjects with their reports remain, marks it: a
// router without that mark waits for the interceptors as after a crash. It does nothing if the Deployment belongs to
// another owner.
func (i *Installer) retireLease(ctx context.Context, deployment *appsv1.Deployment, keepsObjects bool) error {
	reference := leaseReference(httpv1alpha1.DefaultInterceptorLease)
	if !keepsObjects || isForeign(deployment) {
		return i.removeGenerated(ctx, "interceptor", deployment, reference)
	}
	if err := i.removeGenerated(ctx, "interceptor", deployment); err != nil {
		return err
	}
	reference.Namespace = httpv1alpha1.DefaultInterceptorNamespace
	live := new(coordinationv1.Lease)
	exists, err := i.find(ctx, live, reference.Path()...)
	if err != nil || !exists || lease.IsUninstalled(live) {
		return err
	}
	_, err = i.write(ctx, kube.Request{
		Verb: http.MethodPatch, Path: reference.Path(), ContentType: string(types.MergePatchType),
	}, map[string]any{"spec": map[string]any{"holderIdentity": lease.Uninstalled}})
	if err != nil {
		return fmt.Errorf("%s: %w", reference, err)
	}
	i.report(reference, "marked as "+lease.Uninstalled)
	return nil
}

// leaseReference returns the reference of a Lease without its namespace.
func leaseReference(name string) manifests.Reference {
	return manifests.Reference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: name}
}
