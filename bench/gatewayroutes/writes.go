package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/routerbench"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
)

// read returns the routes of a case, by their names.
func (r *routes) read(ctx context.Context, testCase routerbench.Case) (map[string]*unstructured.Unstructured, error) {
	text, err := r.Admin.Get().AbsPath(collection).Param("labelSelector",
		fmt.Sprintf("%s=%d", sizeLabel, testCase.Objects)).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var list unstructured.UnstructuredList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	byName := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		byName[list.Items[i].GetName()] = &list.Items[i]
	}
	return byName, nil
}

// BareWrites reads the routes and marshals each with the weight in it. The returned function only PUTs them.
func (r *routes) BareWrites(
	ctx context.Context, of routerbench.Case, weight uint32,
) (write func(n int) error, err error) {
	read, err := r.read(ctx, of)
	if err != nil {
		return nil, err
	}
	bodies := map[string][]byte{}
	for name, route := range read {
		setWeights(route.Object, int64(weight))
		if bodies[name], err = json.Marshal(route.Object); err != nil {
			return nil, err
		}
	}
	put := func(name string) error {
		return r.Bare.Put().AbsPath(collection+"/"+name).Param("fieldManager", gatewayapi.FieldManager).
			Body(bodies[name]).Do(ctx).Error()
	}
	return func(n int) error {
		_, err := stopwatch.Calls(min(atOnce, of.Objects), of.Objects,
			func(i int) error { return put(route(of.Objects, n, i)) })
		return err
	}, nil
}

// CheckWeights lists the routes and checks the weight of the second backend of each rule with two.
func (r *routes) CheckWeights(ctx context.Context, testCase routerbench.Case, rollouts []int, weight uint32) error {
	read, err := r.read(ctx, testCase)
	if err != nil {
		return err
	}
	for _, n := range rollouts {
		for i := range testCase.Objects {
			named := route(testCase.Objects, n, i)
			found, ok := read[named]
			if !ok {
				return fmt.Errorf("HTTPRoute %s: %w: it does not exist", named, errWeight)
			}
			want := found.DeepCopy()
			setWeights(want.Object, int64(weight))
			if !reflect.DeepEqual(want.Object, found.Object) {
				return fmt.Errorf("HTTPRoute %s: %w", named, errWeight)
			}
		}
	}
	return nil
}

// errWeight is returned if a route has another weight than the requested one.
var errWeight = errors.New("another weight")

// setWeights sets the weight of the second backend of each rule with two, and gives the first one the rest.
func setWeights(route map[string]any, weight int64) {
	rules, _, _ := unstructured.NestedSlice(route, "spec", "rules")
	for _, rule := range rules {
		fields, _ := rule.(map[string]any)
		refs, _ := fields["backendRefs"].([]any)
		if len(refs) != 2 {
			continue
		}
		for at, share := range []int64{100 - weight, weight} {
			ref, _ := refs[at].(map[string]any)
			ref["weight"] = share
		}
	}
	_ = unstructured.SetNestedSlice(route, rules, "spec", "rules")
}

// ReportStatus acts as the Gateway: it accepts the current generation of all routes of some Rollouts.
func (r *routes) ReportStatus(ctx context.Context, testCase routerbench.Case, rollouts []int) error {
	read, err := r.read(ctx, testCase)
	if err != nil {
		return err
	}
	_, err = stopwatch.Calls(atOnce, len(rollouts)*testCase.Objects, func(n int) error {
		name := route(testCase.Objects, rollouts[n/testCase.Objects], n%testCase.Objects)
		return r.accept(ctx, name, read[name].GetGeneration())
	})
	return err
}

// accept writes the status of a route as its Gateway would: it accepts a generation.
func (r *routes) accept(ctx context.Context, name string, generation int64) error {
	conditions := []metav1.Condition{}
	for _, kind := range []string{"Accepted", "ResolvedRefs"} {
		conditions = append(conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: kind, ObservedGeneration: generation,
			LastTransitionTime: metav1.Now(),
		})
	}
	parent := map[string]any{
		"parentRef":      map[string]any{"name": "gateway", "namespace": "gateways"},
		"controllerName": "bench.test/gateway", "conditions": conditions,
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"parents": []any{parent}}})
	if err != nil {
		return err
	}
	return r.Admin.Patch(types.MergePatchType).AbsPath(collection + "/" + name + "/status").Body(body).Do(ctx).Error()
}
