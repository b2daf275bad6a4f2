package gather

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// crd contains the required fields of a CustomResourceDefinition.
type crd struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
			Schema struct {
				OpenAPI struct {
					Properties struct {
						Status struct {
							Properties map[string]json.RawMessage `json:"properties"`
						} `json:"status"`
					} `json:"properties"`
				} `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// crds reads the CustomResourceDefinitions that the components require.
func (r *Reader) crds(ctx context.Context, cluster *facts.Facts) error {
	for _, name := range []string{facts.HTTPScaledObjectsCRD, facts.ScaledObjectsCRD} {
		live, err := find[crd](ctx, r, "apis", "apiextensions.k8s.io", "v1", "customresourcedefinitions", name)
		if err != nil {
			return err
		}
		if live == nil {
			continue
		}
		read := facts.CRD{ObjectMeta: live.Metadata}
		for _, version := range live.Spec.Versions {
			if !version.Served {
				continue
			}
			read.Served = append(read.Served, version.Name)
			for field := range version.Schema.OpenAPI.Properties.Status.Properties {
				read.StatusFields = append(read.StatusFields, field)
			}
		}
		slices.Sort(read.StatusFields)
		cluster.CRDs[name] = read
	}
	return nil
}

// gatewayGroup is the API group of the Gateway API.
const gatewayGroup = "gateway.networking.k8s.io"

// routeKinds returns the supported kinds of routes.
func routeKinds() []route.Kind {
	return []route.Kind{route.HTTPRoute, route.GRPCRoute, route.TCPRoute, route.TLSRoute, route.UDPRoute}
}

// servedRoutes returns the kinds of routes that the cluster serves, each with the newest version that is supported.
func (r *Reader) servedRoutes(ctx context.Context) (map[route.Kind]string, error) {
	served := map[route.Kind]string{}
	group, err := find[metav1.APIGroup](ctx, r, "apis", gatewayGroup)
	if err != nil || group == nil {
		return served, err
	}
	for _, version := range []string{"v1alpha2", "v1alpha3", "v1beta1", "v1"} {
		if !slices.ContainsFunc(group.Versions,
			func(v metav1.GroupVersionForDiscovery) bool { return v.Version == version }) {
			continue
		}
		var resources metav1.APIResourceList
		if err := r.get(ctx, kube.Request{Path: []string{"apis", gatewayGroup, version}}, &resources); err != nil {
			return nil, err
		}
		for _, kind := range routeKinds() {
			if slices.ContainsFunc(resources.APIResources,
				func(of metav1.APIResource) bool { return of.Name == kind.Resource() }) {
				served[kind] = version
			}
		}
	}
	return served, nil
}

// routes reads the routes of all served kinds in all namespaces, because a Rollout may reference a route in another
// namespace.
func (r *Reader) routes(ctx context.Context, cluster *facts.Facts) error {
	cluster.Routes = nil
	served, err := r.servedRoutes(ctx)
	if err != nil {
		return err
	}
	for _, kind := range routeKinds() {
		version, ok := served[kind]
		if !ok {
			continue
		}
		items, err := list[json.RawMessage](ctx, r, gatewayGroup+"/"+version, kind.Resource(), "", "")
		if err != nil {
			return err
		}
		for _, text := range items {
			read, err := parseRoute(kind, version, text)
			if err != nil {
				return err
			}
			cluster.Routes = append(cluster.Routes, read)
		}
	}
	return nil
}

// parseRoute parses a route. Items of a list have no apiVersion and kind, so they are set.
func parseRoute(kind route.Kind, version string, text []byte) (facts.Route, error) {
	var head struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	read := facts.Route{Kind: kind}
	if err := errors.Join(json.Unmarshal(text, &head), utiljson.Unmarshal(text, &read.Content)); err != nil {
		return read, fmt.Errorf("%s: %w", kind, err)
	}
	read.Content["apiVersion"], read.Content["kind"] = gatewayGroup+"/"+version, string(kind)
	read.Name = types.NamespacedName{Namespace: head.Metadata.Namespace, Name: head.Metadata.Name}
	read.Labels = head.Metadata.Labels
	return read, nil
}
