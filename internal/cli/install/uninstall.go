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

// ErrUsed says that something uses what is to go.
var ErrUsed = errors.New("still in use: delete these objects first, or use --force")

const (
	kindDefinition = "CustomResourceDefinition"
	kindWebhook    = "MutatingWebhookConfiguration"
	kindDeployment = "Deployment"
)

// Removal is what is to go.
type Removal struct {
	// Facts are what was read of the cluster.
	Facts *facts.Facts
	// Every is each object that can have been made, whatever was wished for: its kinds are looked through.
	Every []manifests.Object
	// Force removes what is in use, too.
	Force bool
}

// Uninstall takes away what Install has made, and what the programs have made that it installed. Ingresses get their
// backends back before the proxies go, and the routers leave the controller before their roles do.
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

// labelled finds the objects that Install has made: the last ones to be made first.
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

// checkUses fails with ErrUsed where something would be missed that nobody has said is to go.
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

// removeAll removes those of some objects that are meant.
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

// unregister takes the routers out of the controller's list, and has it start anew without them.
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

// removeMade removes what the interceptors and agents of a Deployment have made for themselves, once none of them is left
// to make it again. Where the Deployment is somebody else's, they live.
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

// lease is the reference of a Lease, without its namespace.
func lease(name string) manifests.Reference {
	return manifests.Reference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: name}
}
