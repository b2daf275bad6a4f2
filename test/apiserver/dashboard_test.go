package apiserver_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

// portOf returns the address of a port of a running program, from its log.
func portOf(t *testing.T, running *program.Process, name string) (address string) {
	t.Helper()
	listening := regexp.MustCompile(`"msg":"listening","port":"` + name + `","address":"([^"]+)"`)
	await.True(t, "port "+name+" is open", func() bool {
		log, err := running.Log()
		found := listening.FindSubmatch(log)
		if err == nil && found != nil {
			address = string(found[1])
		}
		return address != ""
	})
	return address
}

// page is a live page, and the token of its user.
type page struct{ url, token string }

// get requests a path of the API, and returns the status code and the text; 0 without a response.
func (p page) get(ctx context.Context, path string) (int, string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"api/v1/"+path, http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	if p.token != "" {
		request.Header.Set("Authorization", "Bearer "+p.token)
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13},
	}}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// objects returns the names of the objects in the list.
func (p page) objects(t *testing.T) (names []string) {
	t.Helper()
	var list struct {
		Objects []struct{ Namespace, Name string } `json:"objects"`
	}
	code, text := p.get(t.Context(), "objects")
	if err := json.Unmarshal([]byte(text), &list); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s, %v", code, text, err)
	}
	for _, object := range list.Objects {
		names = append(names, object.Namespace+"/"+object.Name)
	}
	return names
}

// useDashboard runs an interceptor with the live page. On the loopback port it shows a canary with its workload. On the
// admin port, a ServiceAccount sees the namespace in which it may list HTTPScaledObjects, and nothing else.
func useDashboard(t *testing.T, namespace string) {
	t.Helper()
	const other = "usage-of-others"
	shared.newNamespace(t, other)
	for in, kind := range map[string]string{namespace: "Rollout", other: "Deployment"} {
		shared.apply(t, in, `
apiVersion: http.keda.sh/v1alpha1
kind: HTTPScaledObject
metadata: {name: shown}
spec: {hosts: [shown.`+in+`.test], scaleTargetRef: {kind: `+kind+`, name: shown, service: missing, port: 80}}
`)
	}
	running := shared.startInterceptor(t, "interceptor-dashboard")
	local := page{url: "http://" + portOf(t, running, "dashboard") + "/"}
	await.True(t, "the page shows both objects", func() bool {
		names := local.objects(t)
		return slices.Contains(names, namespace+"/shown") && slices.Contains(names, other+"/shown")
	})
	for _, path := range []string{namespace + "/shown", other + "/shown"} {
		await.True(t, "the workload of "+path+" was read", func() bool {
			code, text := local.get(t.Context(), "objects/"+path)
			return code == http.StatusOK && strings.Contains(text, "shown does not exist")
		})
	}
	admin := page{url: "https://" + portOf(t, running, "admin") + "/dashboard/"}
	await.True(t, "the admin port has the certificate", func() bool {
		code, _ := admin.get(t.Context(), "objects")
		return code == http.StatusUnauthorized
	})
	admin.token = viewerToken(t, namespace)
	if names := admin.objects(t); !slices.Contains(names, namespace+"/shown") || slices.Contains(names, other+"/shown") {
		t.Errorf("the user sees %v", names)
	}
	for path, want := range map[string]int{
		"objects/" + namespace + "/shown": http.StatusOK, "objects/" + other + "/shown": http.StatusForbidden,
		"objects?namespace=" + other: http.StatusForbidden, "watch?namespace=" + other: http.StatusForbidden,
	} {
		if code, text := admin.get(t.Context(), path); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, text, want)
		}
	}
	admin.token += "x"
	if code, text := admin.get(t.Context(), "objects"); code != http.StatusUnauthorized {
		t.Errorf("an invalid token: %d %s", code, text)
	}
	running.Stop(t)
}

// viewerToken returns a token of a new ServiceAccount that may list the HTTPScaledObjects of its namespace.
func viewerToken(t *testing.T, namespace string) string {
	t.Helper()
	const role = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: viewer}
rules: [{apiGroups: [http.keda.sh], resources: [httpscaledobjects], verbs: [list]}]
`
	shared.apply(t, namespace, role)
	shared.apply(t, namespace, fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: viewer}
subjects: [{kind: ServiceAccount, name: viewer, namespace: %s}]
`, namespace))
	shared.apply(t, namespace, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: viewer}\n")
	body, err := shared.admin.Post().AbsPath("/api/v1/namespaces/"+namespace+"/serviceaccounts/viewer/token").
		Body([]byte(`{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}`)).
		SetHeader("Content-Type", "application/json").DoRaw(t.Context())
	var answer struct {
		Status struct{ Token string } `json:"status"`
	}
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil || answer.Status.Token == "" {
		t.Fatalf("token of the viewer: %v", err)
	}
	return answer.Status.Token
}
