package helm

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// privateRegistry is the registry of the embedded cluster that requires credentials: localcluster/images/private.go.
const privateRegistry = "private.example.com"

// proxyImage returns the image of the proxies in config.
func proxyImage(t *testing.T, repo string) string {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join(repo, "config", "kedify-proxy", "deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`image: (envoyproxy/\S+)`).FindSubmatch(manifest)
	if match == nil {
		t.Fatalf("config/kedify-proxy has no image of Envoy:\n%s", manifest)
	}
	return string(match[1])
}

// addCredentials creates the namespace of the application, and the Secret registry in it and in that of the release. As
// the README of the chart states, the proxies get the Secret from their ServiceAccount.
func addCredentials(t *testing.T, e *environment) {
	t.Helper()
	e.kubectl("").Do(t, "create", "namespace", demo)
	for _, namespace := range []string{e.namespace, demo} {
		e.kubectl(namespace).Do(t, "create", "secret", "docker-registry", "registry", "--docker-server="+privateRegistry,
			"--docker-username=puller", "--docker-password=not-a-secret")
	}
	account := e.kubectl(demo)
	await.True(t, "the ServiceAccount default", func() bool {
		return account.Do(t, "get", "serviceaccount/default", "--ignore-not-found", "-o", "name") != ""
	})
	account.Do(t, "patch", "serviceaccount/default", "-p", `{"imagePullSecrets":[{"name":"registry"}]}`)
}

// checkPrivateRegistry checks that each component and the proxies run the images of the private registry, which refuses
// to serve them without credentials.
func checkPrivateRegistry(t *testing.T, e *environment) {
	t.Helper()
	const images = "jsonpath={.items[*].spec.containers[*].image}"
	for namespace, want := range map[string]int{e.namespace: 2 * len(components()), demo: 1} {
		selector := "app.kubernetes.io/name=http-add-on"
		if namespace == demo {
			selector = "app=kedify-proxy"
		}
		used := strings.Fields(e.kubectl(namespace).Do(t, "get", "pods", "-l", selector, "-o", images))
		for _, image := range used {
			if !strings.HasPrefix(image, privateRegistry+"/") {
				t.Errorf("a Pod in namespace %s runs %s", namespace, image)
			}
		}
		if len(used) != want {
			t.Errorf("namespace %s has the images %v, want %d", namespace, used, want)
		}
	}
	k := e.kubectl("default")
	k.Do(t, "run", "no-credentials", "--image="+privateRegistry+"/kedify/argo-rollouts-plugin/interceptor:"+e.tag,
		"--image-pull-policy=Always")
	reason := ""
	await.Described(t, "a Pod without credentials to fail", func() bool {
		reason = k.Do(t, "get", "pod/no-credentials", "-o", "jsonpath={.status.containerStatuses[0].state.waiting.message}")
		return strings.Contains(reason, "no basic auth credentials")
	}, func() string { return reason })
	k.Do(t, "delete", "pod/no-credentials", "--now")
}
