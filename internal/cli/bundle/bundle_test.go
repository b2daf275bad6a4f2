package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
type server struct {
	t *testing.T
	// bodies are further responses, by the end of the path.
	bodies map[string]string
}

// RoundTrip implements http.RoundTripper.
func (s server) RoundTrip(request *http.Request) (*http.Response, error) {
	body, code := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, http.StatusNotFound
	path := request.URL.Path
	for end, further := range s.bodies {
		if strings.HasSuffix(path, end) {
			return respond(request, http.StatusOK, further), nil
		}
	}
	switch {
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
	return respond(request, code, body), nil
}

// respond returns a response.
func respond(request *http.Request, code int, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
		Body: io.NopCloser(strings.NewReader(body)),
	}
}

// collector returns a Collector of the test's API server, and the facts about its interceptor. The API server has
// further responses, by the end of the path.
func collector(t *testing.T, limit int, bodies map[string]string) (*bundle.Collector, *facts.Facts) {
	t.Helper()
	client := kube.NewClient(func() (*rest.Config, error) {
		return &rest.Config{Host: "https://example.com", Transport: server{t, bodies}, QPS: -1}, nil
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
	c, cluster := collector(t, 1<<20, nil)
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
		"doctor.txt", "objects/keda/pods.json", "logs/keda/one_interceptor.log", "metrics/keda/one_interceptor_2223.txt", "contents.json",
	} {
		if files[name] == "" {
			t.Errorf("the bundle has no file %s: %+v", name, entries)
		}
	}
}

// written returns the files of a bundle, and the entries that are printed.
func written(t *testing.T, limit int, bodies map[string]string) (map[string]string, []bundle.Entry) {
	t.Helper()
	c, cluster := collector(t, limit, bodies)
	var archive bytes.Buffer
	entries, err := c.Write(t.Context(), &archive, cluster)
	if err != nil {
		t.Fatal(err)
	}
	return unpack(t, archive.Bytes()), entries
}

// noteOf returns the note of a file.
func noteOf(t *testing.T, entries []bundle.Entry, name string) string {
	t.Helper()
	for _, entry := range entries {
		if entry.Name == name {
			return entry.Note
		}
	}
	t.Errorf("there is no file %s: %+v", name, entries)
	return ""
}

// sizeOf returns the size of all files together.
func sizeOf(files map[string]string) int {
	total := 0
	for _, content := range files {
		total += len(content)
	}
	return total
}

// TestBundleIsBounded: files beyond the maximum size are cut, with a note. The index is complete at any size.
func TestBundleIsBounded(t *testing.T) {
	t.Parallel()
	log := map[string]string{"/log": strings.Repeat("a line\n", 1000)}
	whole, _ := written(t, 1<<20, log)
	size := sizeOf(whole) - len(whole["contents.json"])
	for _, limit := range []int{size - 1, size - 3000, 100, 0} {
		files, entries := written(t, limit, log)
		if size := sizeOf(files) - len(files["contents.json"]); size != limit {
			t.Errorf("%d bytes, want %d: %+v", size, limit, entries)
		}
		var index []bundle.Entry
		if err := json.Unmarshal([]byte(files["contents.json"]), &index); err != nil {
			t.Errorf("the index of a bundle of %d bytes: %v", limit, err)
		}
		isCut := false
		for _, entry := range index {
			isCut = isCut || strings.Contains(entry.Note, "maximum size")
			if len(files[entry.Name]) != entry.Size {
				t.Errorf("%s has %d bytes, want %d", entry.Name, len(files[entry.Name]), entry.Size)
			}
		}
		if !isCut {
			t.Errorf("a bundle of %d bytes is not cut: %+v", limit, index)
		}
		if diff := cmp.Diff(entries[:len(entries)-1], index); diff != "" {
			t.Errorf("the index (-printed +index):\n%s", diff)
		}
	}
}

// TestIncompleteFilesHaveANote: a list that continues, and a log that was cut, are not complete. The end of a log stays.
func TestIncompleteFilesHaveANote(t *testing.T) {
	t.Parallel()
	short := strings.Repeat("old\n", 3000) + "new\n"
	long := strings.Repeat(strings.Repeat("x", 1023)+"\n", 2000) + "new\n"
	const pods = `{"metadata":{"continue":"next"},"items":[{"metadata":{"name":"one","namespace":"keda"},` +
		`"spec":{"containers":[{"name":"interceptor"}]}}]}`
	for _, test := range []struct {
		path, body, file, note string
	}{
		{"/rollouts", `{"metadata":{"continue":"next","remainingItemCount":12},"items":[]}`, "objects/rollouts.json", "incomplete: only the first 500 of 512 objects"},
		{"/rollouts", `{"metadata":{"continue":"next"},"items":[]}`, "objects/rollouts.json", "incomplete: only the first 500 objects"},
		{"/rollouts", `{"metadata":{},"items":[]}`, "objects/rollouts.json", ""},
		{"/pods", pods, "logs/keda/interceptor", "incomplete: only the first 500 objects"},
		{"/pods", "[]", "logs/keda/interceptor", "not read: json: cannot unmarshal array into Go value of type v1.PodList"},
		{"/log", short, "logs/keda/one_interceptor.log", "incomplete: only the last 3000 lines"},
		{"/log", long, "logs/keda/one_interceptor.log", "incomplete: only the last 1047556 bytes"},
		{"/log", strings.Repeat(long, 5), "logs/keda/one_interceptor.log", "incomplete: the last 3000 lines have more than 8388608 bytes, of which the newest are missing"},
		{"/log", "new\n", "logs/keda/one_interceptor.log", ""},
	} {
		files, entries := written(t, 50<<20, map[string]string{test.path: test.body})
		if got := noteOf(t, entries, test.file); got != test.note {
			t.Errorf("%s: note %q, want %q", test.file, got, test.note)
		}
		if content := files[test.file]; test.path == "/log" && (!strings.HasSuffix(content, "\nnew\n") && content != "new\n" ||
			len(content) > 1<<20) {
			t.Errorf("%s has %d bytes and ends with %q", test.file, len(content), content[max(0, len(content)-20):])
		}
	}
}

// TestFilesHaveDifferentNames: two containers of a Pod have a port of the same name, and two components the same Pod.
func TestFilesHaveDifferentNames(t *testing.T) {
	t.Parallel()
	c, cluster := collector(t, 1<<20, map[string]string{"/pods": `{"items":[{"metadata":{"name":"one","namespace":"keda"},
"spec":{"containers":[{"name":"a","ports":[{"name":"metrics","containerPort":1},{"name":"http-metrics","containerPort":2}]},
{"name":"b","ports":[{"name":"metrics","containerPort":3}]}]}}]}`})
	cluster.Scaler = cluster.Interceptor
	entries, err := c.Write(t.Context(), io.Discard, cluster)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name, "logs/") || strings.HasPrefix(entry.Name, "metrics/") {
			names = append(names, entry.Name)
		}
	}
	want := []string{
		"logs/keda/one_a.log", "metrics/keda/one_a_1.txt", "metrics/keda/one_a_2.txt", "logs/keda/one_b.log",
		"metrics/keda/one_b_3.txt",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestPlan: a dry run lists exactly the files that are written.
func TestPlan(t *testing.T) {
	t.Parallel()
	c, cluster := collector(t, 1<<20, nil)
	cluster.Plugins = &corev1.ConfigMap{Data: map[string]string{"trafficRouterPlugins": ""}}
	var planned, names []string
	for _, entry := range c.Plan(t.Context(), cluster) {
		planned = append(planned, entry.Name)
	}
	entries, err := c.Write(t.Context(), io.Discard, cluster)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name)
	}
	if diff := cmp.Diff(names, planned); diff != "" {
		t.Errorf("files (-written +planned):\n%s", diff)
	}
	if len(planned) < 15 {
		t.Errorf("planned only %v", planned)
	}
}
