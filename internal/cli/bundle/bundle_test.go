package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/bundle"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// The credentials that the API server of the test has, each of which must not be in a bundle.
const (
	tokenText    = "s3cr3t-token-value"
	passwordText = "hunter2-password"
	jwtText      = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
	keyText      = "MIIEvQIBADANBgkqhkiG9w0BAQ"
)

// server is an API server whose objects and logs contain credentials. It fails the test for a request for Secrets.
type server struct{ t *testing.T }

// RoundTrip implements http.RoundTripper.
func (s server) RoundTrip(request *http.Request) (*http.Response, error) {
	body, code := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, http.StatusNotFound
	switch path := request.URL.Path; {
	case strings.Contains(path, "secrets"):
		s.t.Errorf("%s reads Secrets", path)
	case strings.HasSuffix(path, "/log"):
		body, code = "started\nauthorization: Bearer "+tokenText+"\nurl=https://user:"+passwordText+"@example.com/\n"+
			"-----BEGIN PRIVATE KEY-----\n"+keyText+"\n-----END PRIVATE KEY-----\nlistening on :8080\n", http.StatusOK
	case strings.HasSuffix(path, "/proxy/metrics"):
		body, code = "kedify_up 1\n", http.StatusOK
	case strings.HasSuffix(path, "/pods"):
		body, code = `{"kind":"PodList","items":[{"metadata":{"name":"one","namespace":"keda","managedFields":[{"manager":"x"}],
"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"`+passwordText+`","example.com/api-key":"`+tokenText+`","shown":"yes"}},
"spec":{"containers":[{"name":"interceptor","ports":[{"name":"metrics","containerPort":2223}],
"args":["--token","`+tokenText+`","--secret-name","kept-name"],
"env":[{"name":"DB_PASSWORD","value":"`+passwordText+`"},{"name":"LOG_LEVEL","value":"debug"},
{"name":"REF","valueFrom":{"secretKeyRef":{"name":"kept-reference","key":"x"}}},{"name":"JWT","value":"`+jwtText+`"}]}]}}]}`, http.StatusOK
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
		Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// collector returns a Collector of the test's API server, and the facts about its interceptor.
func collector(t *testing.T, limit int) (*bundle.Collector, *facts.Facts) {
	t.Helper()
	client := kube.NewClient(func() (*rest.Config, error) {
		return &rest.Config{Host: "https://example.com", Transport: server{t}, QPS: -1}, nil
	})
	cluster := &facts.Facts{Interceptor: &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "keda", Name: "interceptor"},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}},
	}}
	return bundle.New(client, bundle.Options{
		Limit: limit, HasLogs: true, Now: time.Unix(0, 0),
		Reports: map[string][]byte{"doctor.txt": []byte("No problems found.\n")},
	}), cluster
}

// unpack returns the files of an archive.
func unpack(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for reader := tar.NewReader(compressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(header.Name, "http-canary-support/")] = string(content)
	}
}

// TestBundleHasNoCredentials: no file contains a credential, and what is none stays.
func TestBundleHasNoCredentials(t *testing.T) {
	t.Parallel()
	c, cluster := collector(t, 1<<20)
	var archive bytes.Buffer
	entries, err := c.Write(t.Context(), &archive, cluster)
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, archive.Bytes())
	var all strings.Builder
	for name, content := range files {
		all.WriteString(name + "\n" + content + "\n")
	}
	for _, credential := range []string{tokenText, passwordText, jwtText, keyText, "last-applied", "managedFields"} {
		if strings.Contains(all.String(), credential) {
			t.Errorf("the bundle contains %q:\n%s", credential, all.String())
		}
	}
	for _, kept := range []string{
		"listening on :8080", "kedify_up 1", `"debug"`, "kept-reference", "kept-name", `"shown": "yes"`, "No problems found.",
	} {
		if !strings.Contains(all.String(), kept) {
			t.Errorf("the bundle lacks %q:\n%s", kept, all.String())
		}
	}
	for _, name := range []string{
		"doctor.txt", "objects/keda/pods.json", "logs/keda/one_interceptor.log", "metrics/keda/one.txt", "contents.json",
	} {
		if files[name] == "" {
			t.Errorf("the bundle has no file %s: %+v", name, entries)
		}
	}
}

// TestBundleIsBounded: files beyond the maximum size are cut, with a note.
func TestBundleIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 100
	c, cluster := collector(t, limit)
	var archive bytes.Buffer
	entries, err := c.Write(t.Context(), &archive, cluster)
	if err != nil {
		t.Fatal(err)
	}
	total, isCut := 0, false
	for _, content := range unpack(t, archive.Bytes()) {
		total += len(content)
	}
	for _, entry := range entries {
		isCut = isCut || strings.Contains(entry.Note, "maximum size")
	}
	if total > limit || !isCut {
		t.Errorf("%d bytes, want at most %d: %+v", total, limit, entries)
	}
}

// TestPlan: a dry run lists the files that are written.
func TestPlan(t *testing.T) {
	t.Parallel()
	c, cluster := collector(t, 1<<20)
	planned := map[string]bool{}
	for _, entry := range c.Plan(t.Context(), cluster) {
		planned[entry.Name] = true
	}
	entries, err := c.Write(t.Context(), io.Discard, cluster)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !planned[entry.Name] && !strings.HasPrefix(entry.Name, "metrics/") && entry.Name != "contents.json" {
			t.Errorf("%s is not planned", entry.Name)
		}
	}
	if len(planned) < 15 {
		t.Errorf("planned only %v", planned)
	}
}
