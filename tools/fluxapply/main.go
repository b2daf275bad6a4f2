// Command fluxapply applies manifests as Flux's kustomize-controller does, by its own engine:
// github.com/fluxcd/pkg/ssa.
//
//	fluxapply --kubeconfig FILE [--kustomization FILE] < manifests
//
// It prints the result of each object. A Kustomization's spec.ignore excludes fields.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/jsondiff"
	"github.com/fluxcd/pkg/ssa/normalize"
	ssautil "github.com/fluxcd/pkg/ssa/utils"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	// controller is the field manager of Flux's kustomize-controller.
	controller = "kustomize-controller"
	// limit bounds an application of manifests.
	limit = time.Minute
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the cluster")
	kustomization := flag.String("kustomization", "", "file with a Kustomization of Flux")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	err := run(ctx, *kubeconfig, *kustomization, os.Stdin, os.Stdout)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run applies the manifests from its input.
func run(ctx context.Context, kubeconfig, kustomization string, in io.Reader, out io.Writer) error {
	options, err := options(kustomization)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("%s: %w", kubeconfig, err)
	}
	api, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	objects, err := ssautil.ReadObjects(in)
	if err == nil {
		err = normalize.UnstructuredList(objects)
	}
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	if len(objects) == 0 {
		return errors.New("no objects: pass manifests on standard input")
	}
	manager := ssa.NewResourceManager(api, nil, ssa.Owner{Field: controller, Group: kustomizev1.GroupVersion.Group})
	manager.SetOwnerLabels(objects, "apps", "flux-system")
	changes, err := manager.ApplyAllStaged(ctx, objects, options)
	if changes != nil {
		for _, entry := range changes.Entries {
			fmt.Fprintln(out, entry.String())
		}
	}
	return err
}

// options are those of kustomize-controller v1.9, in its internal/controller/kustomization_controller.go, method apply.
func options(kustomization string) (ssa.ApplyOptions, error) {
	made := ssa.DefaultApplyOptions()
	key := func(name string) string { return kustomizev1.GroupVersion.Group + "/" + name }
	made.ExclusionSelector = map[string]string{
		key("reconcile"): kustomizev1.DisabledValue, key("ssa"): kustomizev1.IgnoreValue,
	}
	made.IfNotPresentSelector = map[string]string{key("ssa"): kustomizev1.IfNotPresentValue}
	made.ForceSelector = map[string]string{key("force"): kustomizev1.EnabledValue}
	made.Cleanup = ssa.ApplyCleanupOptions{
		Annotations: []string{corev1.LastAppliedConfigAnnotation},
		Exclusions:  map[string]string{key("ssa"): kustomizev1.MergeValue},
	}
	for _, manager := range []ssa.FieldManager{
		{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
		{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
		{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
		{Name: controller, OperationType: metav1.ManagedFieldsOperationUpdate},
	} {
		made.Cleanup.FieldManagers = append(made.Cleanup.FieldManagers, manager)
	}
	if kustomization == "" {
		return made, nil
	}
	text, err := os.ReadFile(kustomization)
	if err != nil {
		return made, err
	}
	var wanted kustomizev1.Kustomization
	if err := yaml.UnmarshalStrict(text, &wanted); err != nil {
		return made, fmt.Errorf("%s is not a Kustomization of Flux: %w", kustomization, err)
	}
	for _, rule := range wanted.Spec.Ignore {
		made.DriftIgnoreRules = append(made.DriftIgnoreRules, ignored(rule))
	}
	return made, nil
}

// ignored converts a rule of a Kustomization to the engine's type.
func ignored(rule kustomizev1.IgnoreRule) jsondiff.IgnoreRule {
	made := jsondiff.IgnoreRule{Paths: rule.Paths}
	if of := rule.Target; of != nil {
		made.Selector = &jsondiff.Selector{
			Group: of.Group, Version: of.Version, Kind: of.Kind, Name: of.Name, Namespace: of.Namespace,
			AnnotationSelector: of.AnnotationSelector, LabelSelector: of.LabelSelector,
		}
	}
	return made
}
