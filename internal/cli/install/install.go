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
	// ErrNamespace says that a namespace is missing.
	ErrNamespace = errors.New("namespace does not exist")
	// ErrGoing says that an object is being deleted: what was made of it now would go with it.
	ErrGoing = errors.New("is being deleted: run the command again when it is gone")
)

// Plan is what an installation consists of.
type Plan struct {
	// Objects are to be made in this order.
	Objects []manifests.Object
	// Controller is that of Argo Rollouts.
	Controller types.NamespacedName
	// Entries are those of the routers, and Replace lets them come into the place of somebody else's.
	Entries []registration.Entry
	Replace bool
	// Patch is what the controller's Deployment gets for a text of plugins.
	Patch func(plugins string) (manifests.Object, error)
}

// Install carries out a plan: first it reads all that is there and refuses what is somebody else's, then it makes the
// objects, waits until their Deployments serve, registers the routers, and waits until the controller has started anew.
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

// there is an object as it was found.
type there struct {
	action  manifests.Action
	version string // resource version; empty where there was none
}

// examine reads what is there of objects, and says of each what is to be done. All that is somebody else's, and all
// namespaces that are missing, are in the error.
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

// put makes one object what it is to be.
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

// configMapOf names the controller's ConfigMap.
func configMapOf(namespace string) manifests.Reference {
	return manifests.Reference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: facts.ConfigMapName}
}

// plugins reads the controller's ConfigMap, nil where there is none.
func (i *Installer) plugins(ctx context.Context, namespace string) (*corev1.ConfigMap, error) {
	live := new(corev1.ConfigMap)
	is, err := i.find(ctx, live, configMapOf(namespace).Path()...)
	if err != nil || !is {
		return nil, err
	}
	return live, nil
}

// registration works out what the controller's ConfigMap is to be.
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

// register writes the controller's ConfigMap, if it is still what it was. One that has nothing in it and was made by
// this package is removed.
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

// restart applies what the controller's Deployment is to have, and waits until its Pods do.
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
