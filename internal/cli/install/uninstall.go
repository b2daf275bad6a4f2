package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/registration"
)

// ErrInUse reports objects that use the installation.
var ErrUsed = errors.New("still in use: delete these objects first, or use --force")

const (
	kindDefinition = "CustomResourceDefinition"
	kindWebhook    = "MutatingWebhookConfiguration"
	kindDeployment = "Deployment"
)

// Removal describes what to uninstall.
type Removal struct {
	// Facts are the facts of the cluster.
	Facts *facts.Facts
	// All contains every object that Install may have created with any options: uninstalling lists objects of their
	// kinds.
	Every []manifests.Object
	// Force also deletes objects that are in use.
	Force bool
}

// Uninstall deletes the objects that Install and the installed components have created. It restores backends before it
// deletes the proxies, and unregisters the routers before it deletes their roles.
func (i *Installer) Uninstall(ctx context.Context, removal Removal) error {
	labelled, err := i.labelled(ctx, removal.Every)
	if err != nil {
		return err
	}
	if err := i.checkUses(labelled, removal); err != nil {
		return err
	}
	// The agent would rewrite restored backends again. Its webhook goes first: without it, the API server needs no agent.
	isFirst := func(of manifests.Reference) bool {
		return of.Kind == kindWebhook || of.Kind == kindDeployment && of.Name == httpv1alpha1.ManagedByAgent
	}
	isLast := func(of manifests.Reference) bool { return of.Kind == kindDefinition }
	if err := i.removeAll(ctx, labelled, isFirst); err != nil {
		return err
	}
	if agent := removal.Facts.Agent; agent == nil || agent.Labels[manifests.LabelManagedBy] == manifests.ManagedBy {
		if err := i.unwire(ctx); err != nil {
			return err
		}
	}
	if err := i.unregister(ctx, removal.Facts); err != nil {
		return err
	}
	if err := i.removeAll(ctx, labelled, func(of manifests.Reference) bool { return !isFirst(of) && !isLast(of) }); err != nil {
		return err
	}
	if err := i.removeMade(ctx, "interceptor", removal.Facts.Interceptor, lease(httpv1alpha1.DefaultInterceptorLease)); err != nil {
		return err
	}
	secret := manifests.Reference{APIVersion: "v1", Kind: "Secret", Name: httpv1alpha1.ManagedByAgent + "-webhook"}
	if err := i.removeMade(ctx, "agent", removal.Facts.Agent, lease(httpv1alpha1.ManagedByAgent), secret); err != nil {
		return err
	}
	if err := i.removeAll(ctx, labelled, isLast); err != nil {
		return err
	}
	return i.absent(ctx, labelled, isLast)
}

// managedObjects returns the objects that Install has created, in reverse order of creation.
func (i *Installer) labelled(ctx context.Context, every []manifests.Object) ([]manifests.Reference, error) {
	var all []manifests.Reference
	looked := map[manifests.Reference]bool{}
	for _, object := range slices.Backward(every) {
		collection := manifests.Reference{APIVersion: object.APIVersion, Kind: object.Kind}
		if looked[collection] {
			continue
		}
		looked[collection] = true
		found, err := list[metav1.PartialObjectMetadata](ctx, i, manifests.LabelManagedBy+"="+manifests.ManagedBy, collection.Path()...)
		if err != nil {
			return nil, fmt.Errorf("list %ss with label %s: %w", collection.Kind, manifests.LabelManagedBy, err)
		}
		for _, one := range found {
			of := collection
			of.Namespace, of.Name = one.Namespace, one.Name
			if of.Kind != "ConfigMap" || of.Name != facts.ConfigMapName { // unregister deletes it when it is empty
				all = append(all, of)
			}
		}
	}
	return all, nil
}

// checkUnused fails with ErrInUse if objects use the installation, unless forced.
func (i *Installer) checkUses(labelled []manifests.Reference, removal Removal) error {
	for _, part := range []facts.Part{
		facts.Deployments, facts.Plugins, facts.Rollouts, facts.HTTPScaledObjects, facts.ScaledObjects,
	} {
		if err := removal.Facts.Unread[part]; err != nil {
			return fmt.Errorf("%s cannot be read, so objects in use cannot be determined: %w", part, err)
		}
	}
	routers, err := registration.Registered(registration.Of(removal.Facts.Plugins))
	if err != nil {
		return err
	}
	owned := Owned{Routers: routers}
	for _, of := range labelled {
		owned.Defines = owned.Defines || of.Kind == kindDefinition
		owned.Scales = owned.Scales || of.Kind == kindDeployment && (of.Name == httpv1alpha1.ManagedByAgent || of.Name == facts.ScalerService)
	}
	if uses := Uses(removal.Facts, owned); len(uses) > 0 && !removal.Force {
		return fmt.Errorf("%w:\n  %s", ErrUsed, strings.Join(uses, "\n  "))
	}
	return nil
}

// removeMatching deletes the objects that match.
func (i *Installer) removeAll(ctx context.Context, all []manifests.Reference, isMeant func(manifests.Reference) bool) error {
	for _, of := range all {
		if !isMeant(of) {
			continue
		}
		if err := i.remove(ctx, of); err != nil {
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
	of := configMapOf(cluster.Controller.Namespace)
	live, err := i.plugins(ctx, of.Namespace)
	if err != nil {
		return fmt.Errorf("%s: %w", of, err)
	}
	change, err := registration.Unregister(registration.Of(live))
	if err != nil {
		return fmt.Errorf("%s: %w", of, err)
	}
	if live != nil {
		if err := i.register(ctx, of.Namespace, live, change); err != nil {
			return err
		}
	}
	return i.restart(ctx, manifests.ControllerRelease(types.NamespacedName{Namespace: cluster.Controller.Namespace, Name: cluster.Controller.Name}))
}

// removeGenerated deletes the objects that the Pods of a component create at runtime, once no Pod is left that would
// create them again. It does nothing if the Deployment belongs to another owner.
func (i *Installer) removeMade(ctx context.Context, component string, deployment *appsv1.Deployment, made ...manifests.Reference) error {
	if deployment != nil && deployment.Labels[manifests.LabelManagedBy] != manifests.ManagedBy {
		return nil
	}
	if err := i.gone(ctx, component); err != nil {
		return err
	}
	for _, of := range made {
		of.Namespace = httpv1alpha1.DefaultInterceptorNamespace
		if err := i.remove(ctx, of); err != nil {
			return err
		}
	}
	return nil
}

// leaseReference returns the reference of a Lease without its namespace.
func lease(name string) manifests.Reference {
	return manifests.Reference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: name}
}
