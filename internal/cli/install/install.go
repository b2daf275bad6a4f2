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
	ErrNamespaceNotFound = errors.New("namespace does not exist")
	// ErrDeleting reports an object that is being deleted.
	ErrDeleting = errors.New("is being deleted: run the command again when it is gone")
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
	live, err := i.readLive(ctx, plan.Objects)
	if err != nil {
		return err
	}
	configMap, change, err := i.planRegistration(ctx, plan)
	if err != nil {
		return err
	}
	for k, object := range plan.Objects {
		if err := i.applyObject(ctx, object, live[k]); err != nil {
			return err
		}
	}
	for _, object := range plan.Objects {
		if object.Kind == "Deployment" {
			if err := i.waitRolledOut(ctx, object.Reference); err != nil {
				return err
			}
		}
	}
	if err := i.writeRegistration(ctx, plan.Controller.Namespace, configMap, change); err != nil {
		return err
	}
	patch, err := plan.Patch(change.Text)
	if err != nil {
		return err
	}
	return i.restartController(ctx, patch)
}

// liveObject is the state of an existing object.
type liveObject struct {
	action  manifests.Action
	version string // the resource version; empty if the object did not exist
}

// readLive reads the existing objects and returns the action for each. Its error lists all objects of other owners and
// all missing namespaces.
func (i *Installer) readLive(ctx context.Context, objects []manifests.Object) ([]liveObject, error) {
	all := make([]liveObject, len(objects))
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
		exists, err := i.find(ctx, &read, object.Path()...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", object.Reference, err)
		}
		var live *manifests.Live
		if exists {
			live = &manifests.Live{Labels: read.Metadata.Labels}
			for _, version := range read.Spec.Versions {
				if version.Served {
					live.Served = append(live.Served, version.Name)
				}
			}
		}
		action, err := object.Plan(live)
		if err == nil && read.Metadata.DeletionTimestamp != nil {
			err = fmt.Errorf("%s: %w", object.Reference, ErrDeleting)
		}
		failed = append(failed, err)
		all[k] = liveObject{action, read.Metadata.ResourceVersion}
	}
	delete(namespaces, "")
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		exists, err := i.find(ctx, &struct{}{}, "api", "v1", "namespaces", name)
		if err == nil && !exists {
			err = fmt.Errorf("%w: run kubectl create namespace %s", ErrNamespaceNotFound, name)
		}
		failed = append(failed, err)
	}
	return all, errors.Join(failed...)
}

// applyObject creates or updates one object.
func (i *Installer) applyObject(ctx context.Context, object manifests.Object, live liveObject) error {
	if live.action == manifests.Keep {
		i.printf("%s unchanged: it belongs to another owner and serves the required version", object.Reference)
		return nil
	}
	applied, err := i.apply(ctx, object, live.action == manifests.Update)
	if err != nil {
		return err
	}
	switch live.version {
	case "":
		i.report(object.Reference, "created")
	case applied.ResourceVersion:
		i.report(object.Reference, "unchanged")
	default:
		i.report(object.Reference, "configured")
	}
	if object.Kind == "CustomResourceDefinition" {
		return i.waitEstablished(ctx, object.Reference)
	}
	return nil
}

// configMapReference returns the reference of the controller's ConfigMap.
func configMapReference(namespace string) manifests.Reference {
	return manifests.Reference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: facts.ConfigMapName}
}

// readConfigMap reads the controller's ConfigMap, or nil if it does not exist.
func (i *Installer) readConfigMap(ctx context.Context, namespace string) (*corev1.ConfigMap, error) {
	live := new(corev1.ConfigMap)
	exists, err := i.find(ctx, live, configMapReference(namespace).Path()...)
	if err != nil || !exists {
		return nil, err
	}
	return live, nil
}

// planRegistration returns the live ConfigMap of the controller and its new state.
func (i *Installer) planRegistration(ctx context.Context, plan Plan) (*corev1.ConfigMap, registration.State, error) {
	reference := configMapReference(plan.Controller.Namespace)
	live, err := i.readConfigMap(ctx, reference.Namespace)
	if err != nil {
		return nil, registration.State{}, fmt.Errorf("%s: %w", reference, err)
	}
	state, err := registration.Register(registration.StateOf(live), plan.Entries, plan.Replace)
	if err != nil {
		return nil, registration.State{}, fmt.Errorf("%s: data.%s: %w", reference, facts.PluginsKey, err)
	}
	return live, state, nil
}

// writeRegistration writes the controller's ConfigMap if it has not changed since it was read. It deletes a ConfigMap
// that has become empty and was created by this package.
func (i *Installer) writeRegistration(ctx context.Context, namespace string, live *corev1.ConfigMap,
	state registration.State,
) error {
	reference := configMapReference(namespace)
	if state == registration.StateOf(live) {
		i.report(reference, "unchanged")
		return nil
	}
	var text, record any
	if state.Text != "" {
		text = state.Text
	}
	if state.Record != "" {
		record = state.Record
	}
	metadata := map[string]any{"annotations": map[string]any{registration.AnnotationRecord: record}}
	request := kube.Request{Verb: http.MethodPatch, Path: reference.Path(), ContentType: string(types.MergePatchType)}
	result := "configured"
	switch {
	case live == nil:
		request = kube.Request{Verb: http.MethodPost, Path: reference.Path()[:len(reference.Path())-1]}
		metadata["name"], metadata["labels"] = reference.Name, map[string]any{manifests.LabelManagedBy: manifests.ManagedBy}
		result = "created"
	case text == nil && len(live.Data) <= 1 && live.Labels[manifests.LabelManagedBy] == manifests.ManagedBy:
		return i.remove(ctx, reference)
	default:
		metadata["resourceVersion"] = live.ResourceVersion
	}
	_, err := i.write(ctx, request, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": map[string]any{facts.PluginsKey: text},
	})
	if err != nil {
		return fmt.Errorf("%s: %w", reference, err)
	}
	i.report(reference, result)
	return nil
}

// restartController applies the patch of the controller's Deployment, and waits until the rollout of its Pods has
// finished.
func (i *Installer) restartController(ctx context.Context, patch manifests.Object) error {
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
	return i.waitRolledOut(ctx, patch.Reference)
}
