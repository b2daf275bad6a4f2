package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// TestStreamedLists lists objects with large metadata: what no store keeps is missing.
func TestStreamedLists(t *testing.T) {
	t.Parallel()
	const list = `{"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": [{"metadata": {
		"name": "shop", "namespace": "team", "uid": "u", "labels": {"kubernetes.io/service-name": "shop", "a": "b"},
		"annotations": {"a": "b", "http.kedify.io/fleet": "shared",
			"http.kedify.io/status": "{\"uid\": \"u\", \"dataPlane\": {\"reportedBy\": \"pod\"}}"},
		"managedFields": [{"manager": "a"}], "finalizers": ["a"], "ownerReferences": [{"name": "a"}]}}]}`
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String() + " " + r.Header.Get("Accept")
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		_, _ = w.Write([]byte(list))
	}))
	defer server.Close()
	api, err := newClients(kubeconfig(t, server.URL))
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{
		Name: "shop", Namespace: "team", UID: "u", Labels: map[string]string{discoveryv1.LabelServiceName: "shop"},
		Annotations: map[string]string{httpv1alpha1.AnnotationFleet: "shared", httpv1alpha1.AnnotationStatus: ""},
	}
	reported := &httpv1alpha1.HTTPScaledObject{ObjectMeta: meta}
	reported.Status.DataPlane = &httpv1alpha1.DataPlaneStatus{ReportedBy: "pod"}
	for path, c := range map[string]struct {
		source streamed
		want   runtime.Object
	}{
		"/apis/http.keda.sh/v1alpha1/namespaces/team/httpscaledobjects?resourceVersion=3": {
			listWatch(api.scaledObjects, func() object { return new(httpv1alpha1.HTTPScaledObject) }, httpv1alpha1.Resource,
				"team", ""),
			reported,
		},
		"/api/v1/services?resourceVersion=3": {
			listWatch(api.core, func() object { return new(corev1.Service) }, "services", "", ""),
			&corev1.Service{ObjectMeta: meta},
		},
		"/apis/discovery.k8s.io/v1/endpointslices?labelSelector=a%3Db&resourceVersion=3": {
			listWatch(api.discovery, func() object { return new(discoveryv1.EndpointSlice) }, "endpointslices", "", "a=b"),
			&discoveryv1.EndpointSlice{ObjectMeta: meta},
		},
	} {
		got, err := c.source.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "3"})
		if err != nil {
			t.Fatal(err)
		}
		want := &corev1.List{
			ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []runtime.RawExtension{{Object: c.want}},
		}
		if diff := cmp.Diff(runtime.Object(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
		if path += " application/json"; asked != path {
			t.Errorf("%s was requested, want %s", asked, path)
		}
	}
}

// TestListsHavePages lists the newest version of objects on two pages. A list of any version from a given one on has no
// pages, and an error of a page is that of the list.
func TestListsHavePages(t *testing.T) {
	t.Parallel()
	const page = `{"metadata": {"resourceVersion": "7", "continue": "%s", "remainingItemCount": 1}, "items": [
		{"metadata": {"name": "%s", "namespace": "team"}}]}`
	var asked []string
	isBroken := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		switch next := r.URL.Query().Get("continue"); {
		case next != "" && isBroken:
			w.WriteHeader(http.StatusGone)
		case next != "":
			_, _ = fmt.Fprintf(w, page, "", "second")
		case r.URL.Query().Has("limit"):
			_, _ = fmt.Fprintf(w, page, "next", "first")
		default:
			_, _ = fmt.Fprintf(w, page, "", "all")
		}
	}))
	defer server.Close()
	api, err := newClients(kubeconfig(t, server.URL))
	if err != nil {
		t.Fatal(err)
	}
	services := listWatch(api.core, func() object { return new(corev1.Service) }, "services", "", "")
	list := func(version string) (names []string, err error) {
		asked = nil
		got, err := services.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: version})
		if err != nil {
			return nil, err
		}
		read := got.(*corev1.List)
		if read.ResourceVersion != "7" || read.Continue != "" {
			t.Errorf("the list has %+v", read.ListMeta)
		}
		for _, item := range read.Items {
			names = append(names, item.Object.(*corev1.Service).Name)
		}
		return names, nil
	}
	for version, want := range map[string]struct{ asked, names []string }{
		"":  {[]string{"limit=500", "continue=next&limit=500"}, []string{"first", "second"}},
		"3": {[]string{"resourceVersion=3"}, []string{"all"}},
	} {
		names, err := list(version)
		if err != nil || !slices.Equal(names, want.names) || !slices.Equal(asked, want.asked) {
			t.Errorf("version %q: %q, %q, %v; want %+v", version, asked, names, err, want)
		}
	}
	isBroken = true
	if _, err := list(""); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("the error of the second page: %v", err)
	}
}
