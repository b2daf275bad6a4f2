package install

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/registration"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

var (
	// ErrNamespaceNotFound reports a missing namespace.
	ErrNamespace = errors.New("namespace does not exist")
	// ErrDeleting reports an object that is being deleted.
	ErrGoing = errors.New("is being deleted: run the command again when it is gone")
)

// Plan describes an installation.
type Plan struct {
	// Objects are created in this order.
	Objects []manifests.Object
	// Controller is the Deployment of the Argo Rollouts controller.
	Controller types.NamespacedName
	// Entries are the entries of the routers. If Replace is set, they replace entries of other owners.
	Entries []registration.Entry
	Replace bool
	// Patch returns the patch of the controller's Deployment for a list of plugins.
	Patch func(plugins string) (manifests.Object, error)
}

// Install carries out a plan. It reads all existing objects and fails if one belongs to another owner. Then it applies
// the objects, waits until their Deployments are available, registers the routers, and waits until the controller has
// been restarted.
func (i *Installer) Install(ctx context.Context, plan Plan) error {
	found, err := i.examine(ctx, plan.Objects)
	if err != nil {
		return err
	}
	live, change, err := i.registration(ctx, plan)
	if err != nil {
		return err
	}
	for k, object := range plan.Objects {
		if err := i.put(ctx, object, found[k]); err != nil {
			return err
		}
	}
	for _, object := range plan.Objects {
		if object.Kind == "Deployment" {
			if err := i.rollOut(ctx, object.Reference); err != nil {
				return err
			}
		}
	}
	if err := i.register(ctx, plan.Controller.Namespace, live, change); err != nil {
		return err
	}
	patch, err := plan.Patch(change.Text)
	if err != nil {
		return err
	}
	return i.restart(ctx, patch)
}

// liveObject is the state of an existing object.
type there struct {
	action  manifests.Action
	version string // the resource version; empty if the object did not exist
}

// readLive reads the existing objects and returns the action for each. Its error lists all objects of other owners and
// all missing namespaces.
func (i *Installer) examine(ctx context.Context, objects []manifests.Object) ([]there, error) {
	all := make([]there, len(objects))
	namespaces := map[string]bool{}
	var failed []error
	for k, object := range objects {
		namespaces[object.Namespace] = true
		var read struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
			Spec     struct {
				Versions []struct {
					Name   string `json:"name"`
					Served bool   `json:"served"`
				} `json:"versions"`
			} `json:"spec"`
		}
		is, err := i.find(ctx, &read, object.Path()...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", object.Reference, err)
		}
		var live *manifests.Live
		if is {
			live = &manifests.Live{Labels: read.Metadata.Labels}
			for _, version := range read.Spec.Versions {
				if version.Served {
					live.Served = append(live.Served, version.Name)
				}
			}
		}
		action, err := object.Judge(live)
		if err == nil && read.Metadata.DeletionTimestamp != nil {
			err = fmt.Errorf("%s: %w", object.Reference, ErrGoing)
		}
		failed = append(failed, err)
		all[k] = there{action, read.Metadata.ResourceVersion}
	}
	delete(namespaces, "")
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		is, err := i.find(ctx, &struct{}{}, "api", "v1", "namespaces", name)
		if err == nil && !is {
			err = fmt.Errorf("%w: run kubectl create namespace %s", ErrNamespace, name)
		}
		failed = append(failed, err)
	}
	return all, errors.Join(failed...)
}

// applyObject creates or updates one object.
func (i *Installer) put(ctx context.Context, object manifests.Object, found there) error {
	if found.action == manifests.Keep {
		i.sayf("%s unchanged: it belongs to another owner and serves the required version", object.Reference)
		return nil
	}
	applied, err := i.apply(ctx, object, found.action == manifests.Update)
	if err != nil {
		return err
	}
	switch found.version {
	case "":
		i.report(object.Reference, "created")
	case applied.ResourceVersion:
		i.report(object.Reference, "unchanged")
	default:
		i.report(object.Reference, "configured")
	}
	if object.Kind == "CustomResourceDefinition" {
		return i.established(ctx, object.Reference)
	}
	return nil
}

// configMapReference returns the reference of the controller's ConfigMap.
func configMapOf(namespace string) manifests.Reference {
	return manifests.Reference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: facts.ConfigMapName}
}

// readConfigMap reads the controller's ConfigMap, or nil if it does not exist.
func (i *Installer) plugins(ctx context.Context, namespace string) (*corev1.ConfigMap, error) {
	live := new(corev1.ConfigMap)
	is, err := i.find(ctx, live, configMapOf(namespace).Path()...)
	if err != nil || !is {
		return nil, err
	}
	return live, nil
}

// planRegistration returns the live ConfigMap of the controller and its new state.
func (i *Installer) registration(ctx context.Context, plan Plan) (*corev1.ConfigMap, registration.Change, error) {
	of := configMapOf(plan.Controller.Namespace)
	live, err := i.plugins(ctx, of.Namespace)
	if err != nil {
		return nil, registration.Change{}, fmt.Errorf("%s: %w", of, err)
	}
	change, err := registration.Register(registration.Of(live), plan.Entries, plan.Replace)
	if err != nil {
		return nil, registration.Change{}, fmt.Errorf("%s: data.%s: %w", of, facts.PluginsKey, err)
	}
	return live, change, nil
}

// writeRegistration writes the controller's ConfigMap if it has not changed since it was read. It deletes a ConfigMap
// that has become empty and was created by this package.
func (i *Installer) register(ctx context.Context, namespace string, live *corev1.ConfigMap, change registration.Change) error {
	of := configMapOf(namespace)
	if change == registration.Of(live) {
		i.report(of, "unchanged")
		return nil
	}
	var text, record any
	if change.Text != "" {
		text = change.Text
	}
	if change.Record != "" {
		record = change.Record
	}
	metadata := map[string]any{"annotations": map[string]any{registration.AnnotationRecord: record}}
	asked := kube.Request{Verb: http.MethodPatch, Path: of.Path(), ContentType: string(types.MergePatchType)}
	result := "configured"
	switch {
	case live == nil:
		asked = kube.Request{Verb: http.MethodPost, Path: of.Path()[:len(of.Path())-1]}
		metadata["name"], metadata["labels"] = of.Name, map[string]any{manifests.LabelManagedBy: manifests.ManagedBy}
		result = "created"
	case text == nil && len(live.Data) <= 1 && live.Labels[manifests.LabelManagedBy] == manifests.ManagedBy:
		return i.remove(ctx, of)
	default:
		metadata["resourceVersion"] = live.ResourceVersion
	}
	_, err := i.write(ctx, asked, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": map[string]any{facts.PluginsKey: text},
	})
	if err != nil {
		return fmt.Errorf("%s: %w", of, err)
	}
	i.report(of, result)
	return nil
}

// restartController applies the patch of the controller's Deployment, and waits until the rollout of its Pods has
// finished.
func (i *Installer) restart(ctx context.Context, patch manifests.Object) error {
	var before struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if _, err := i.find(ctx, &before, patch.Path()...); err != nil {
		return fmt.Errorf("%s: %w", patch.Reference, err)
	}
	applied, err := i.apply(ctx, patch, false)
	if err != nil {
		return err
	}
	if applied.Generation == before.Metadata.Generation {
		i.report(patch.Reference, "unchanged")
	} else {
		i.report(patch.Reference, "restarted")
	}
	return i.rollOut(ctx, patch.Reference)
}
