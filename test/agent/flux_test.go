package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// fluxVariable is the environment variable with the path of the binary of tools/fluxapply.
const fluxVariable = "FLUXAPPLY_BIN"

// flux makes Flux's engine apply manifests, with a Kustomization unless that is empty. It returns the result for
// each object: configured, created, unchanged or skipped.
func flux(t *testing.T, namespace, kustomization string, manifests ...string) (became []string) {
	t.Helper()
	binary := os.Getenv(fluxVariable)
	if binary == "" {
		t.Fatalf("%s is not set: run `make test-parts`, or set it to what tools/fluxapply was built to", fluxVariable)
	}
	folder := t.TempDir()
	access := filepath.Join(folder, "kubeconfig")
	if err := shared.WriteKubeconfig(access, apiserver.AdminToken); err != nil {
		t.Fatal(err)
	}
	args := []string{"--kubeconfig", access}
	if kustomization != "" {
		file := filepath.Join(folder, "kustomization.yaml")
		if err := os.WriteFile(file, []byte(kustomization), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--kustomization", file)
	}
	command := exec.CommandContext(t.Context(), binary, args...)
	var said, problems bytes.Buffer
	command.Stdin = strings.NewReader(inNamespace(t, namespace, manifests))
	command.Stdout, command.Stderr = &said, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("fluxapply: %v\n%s%s", err, said.String(), problems.String())
	}
	for line := range strings.Lines(said.String()) {
		fields := strings.Fields(line)
		became = append(became, fields[len(fields)-1])
	}
	if len(became) != len(manifests) {
		t.Fatalf("fluxapply says of %d objects:\n%s", len(manifests), said.String())
	}
	return became
}

// inNamespace returns a stream of manifests, as JSON, for a namespace.
func inNamespace(t *testing.T, namespace string, manifests []string) string {
	t.Helper()
	var stream strings.Builder
	for _, manifest := range manifests {
		text, err := yaml.YAMLToJSON([]byte(strings.Replace(manifest, "metadata: {name: web",
			"metadata: {namespace: "+namespace+", name: web", 1)))
		if err != nil {
			t.Fatal(err)
		}
		stream.Write(append(text, '\n'))
	}
	return stream.String()
}

// are fails unless all objects have the same result.
func are(t *testing.T, want string, became []string) {
	t.Helper()
	for _, each := range became {
		if each != want {
			t.Errorf("Flux has them %v, want all %s", became, want)
			return
		}
	}
}

// recipe returns a block of docs/how-to/gitops.md, for Ingress web and HTTPRoute web instead of shop.
func recipe(t *testing.T, mark string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/gitops.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml " + mark + "\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatalf("docs/how-to/gitops.md has no block: yaml %s", mark)
	}
	return strings.ReplaceAll(string(block[1]), "name: shop\n", "name: web\n")
}

// annotated returns the originals with the metadata of a recipe.
func annotated(t *testing.T, recipe string) (manifests []string) {
	t.Helper()
	var object struct {
		Metadata map[string]any `json:"metadata"`
	}
	if err := yaml.UnmarshalStrict([]byte(recipe), &object); err != nil {
		t.Fatal(err)
	}
	metadata, err := json.Marshal(object.Metadata)
	if err != nil {
		t.Fatal(err)
	}
	for _, original := range []string{originalIngress, originalRoute} {
		more := "metadata: {name: web, " + strings.Trim(string(metadata), "{}") + "}"
		manifests = append(manifests, strings.Replace(original, "metadata: {name: web", more, 1))
	}
	return manifests
}

// withRule returns Ingress and HTTPRoute with one more rule, at the end.
func withRule(manifests []string) []string {
	return []string{
		strings.Replace(manifests[0], `number: 80}}}}]}}]}}`, `number: 80}}}}]}}, {host: more.test, http: {paths: [
			{path: /, pathType: Prefix, backend: {service: {name: cart, port: {number: 80}}}}]}}]}}`, 1),
		strings.Replace(manifests[1], `backendRefs: [{name: cart, port: 80}]}]}}`, `backendRefs: [{name: cart, port: 80}]},
			{matches: [{path: {value: /more}}], backendRefs: [{name: cart, port: 80}]}]}}`, 1),
	}
}

// TestFluxWithoutRecipe makes Flux restore the original at each of its intervals.
func TestFluxWithoutRecipe(t *testing.T) {
	t.Parallel()
	team, _ := wiredBy(t, "flux-bare", func(team string) { flux(t, team, "", originalIngress, originalRoute) })
	are(t, "configured", flux(t, team, "", originalIngress, originalRoute))
	await.True(t, "who has restored it is known", func() bool {
		for _, one := range webs(t, team) {
			held, _ := one.annotations()[httpv1alpha1.AnnotationAutowireHold].(string)
			if !strings.Contains(held, `"by":"kustomize-controller","times":1`) {
				return false
			}
		}
		return true
	})
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	are(t, "configured", flux(t, team, "", originalIngress, originalRoute))
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonBackendRevertedByOther)
}

// TestFluxIgnoresBackends makes Flux ignore the wired backends, by the recipe, and apply other changes in Git.
func TestFluxIgnoresBackends(t *testing.T) {
	t.Parallel()
	const wired = "kedify-proxy:8080 cart:80"
	ignore := recipe(t, "flux-ignore")
	team, before := wiredBy(t, "flux-ignore", func(team string) { flux(t, team, ignore, originalIngress, originalRoute) })
	are(t, "unchanged", flux(t, team, ignore, originalIngress, originalRoute))
	more := withRule([]string{originalIngress, originalRoute})
	are(t, "configured", flux(t, team, ignore, more...))
	are(t, "unchanged", flux(t, team, ignore, more...))
	awaitBackends(t, team, wired+" cart:80")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)
	are(t, "configured", flux(t, team, ignore, originalIngress, originalRoute))
	for _, one := range awaitBackends(t, team, wired) {
		if held := one.annotations()[httpv1alpha1.AnnotationAutowireHold]; held != nil {
			t.Errorf("it counts as restored: %v", held)
		}
	}
	apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, trafficAutowire: "false"}`))
	areOriginal(t, before, awaitBackends(t, team, "shop:80 cart:80"))
	are(t, "unchanged", flux(t, team, ignore, originalIngress, originalRoute))

	// The page warns of this: a rule before a wired one gets the wired one's backend.
	apply(t, team, shop(simple))
	awaitBackends(t, team, wired)
	flux(t, team, ignore, strings.Replace(originalIngress, "rules: [", `rules: [{host: cart.test, http: {paths: [
		{path: /, pathType: Prefix, backend: {service: {name: cart, port: {number: 80}}}}]}}, `, 1))
	awaitBackends(t, team, "kedify-proxy:8080 "+wired, wired)
}

// TestFluxCreatesOnly makes Flux create the objects only, by the recipe: changes in Git are not applied.
func TestFluxCreatesOnly(t *testing.T) {
	t.Parallel()
	manifests := annotated(t, recipe(t, "flux-if-not-present"))
	team, _ := wiredBy(t, "flux-once", func(team string) { are(t, "created", flux(t, team, "", manifests...)) })
	are(t, "skipped", flux(t, team, "", withRule(manifests)...))
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)
}

// TestFluxWithProxiesInGit has manually written proxy backends, and a trigger that allows no autowiring.
func TestFluxWithProxiesInGit(t *testing.T) {
	t.Parallel()
	team := namespace(t, "flux-hand")
	manifests := []string{
		strings.Replace(originalIngress, "{name: shop, port: {number: 80}}", "{name: kedify-proxy, port: {number: 8080}}", 1),
		strings.Replace(originalRoute, "{name: shop, port: 80,", "{name: kedify-proxy, port: 8080,", 1),
	}
	are(t, "created", flux(t, team, "", manifests...))
	apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, trafficAutowire: "false"}`))
	proxies(t, team, true)
	programmed(t, team, "shop")
	proxies(t, team, false)                 // and no way around them
	last := namespace(t, "flux-hand-bound") // what comes after is reconciled after
	apply(t, last, originalIngress, shop(simple))
	awaitWiring(t, last, "shop", httpv1alpha1.ReasonProxyUnavailable)
	are(t, "unchanged", flux(t, team, "", manifests...))
	awaitNoAnnotation(t, team)
}

// TestFluxIgnoresWeights sets the weights of a route as a router does. By the recipe Flux keeps them, and applies other
// changes in Git. Without it, Flux writes those of Git.
func TestFluxIgnoresWeights(t *testing.T) {
	t.Parallel()
	team, ignore := namespace(t, "flux-weights"), recipe(t, "flux-weights")
	rules := func(stable, canary int) string {
		return fmt.Sprintf(`[{backendRefs: [{name: shop-stable, port: 80, weight: %d}, {name: shop-canary, port: 80, weight: %d}]}]`,
			stable, canary)
	}
	inGit := `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: web}, spec: {
		parentRefs: [{name: gateway, namespace: gateways}], hostnames: [shop.test], rules: ` + rules(100, 0) + `}}`
	expect := func(what, became string, stable, canary float64, hosts int, done []string) {
		t.Helper()
		are(t, became, done)
		var route struct {
			Spec struct {
				Hostnames []string
				Rules     []struct{ BackendRefs []struct{ Weight float64 } }
			}
		}
		if !get(t, paths(team)[1], &route) || len(route.Spec.Hostnames) != hosts ||
			route.Spec.Rules[0].BackendRefs[0].Weight != stable || route.Spec.Rules[0].BackendRefs[1].Weight != canary {
			t.Errorf("%s: %+v, want weights %v and %v, and %d hosts", what, route.Spec, stable, canary, hosts)
		}
	}
	flux(t, team, ignore, inGit)
	weights, err := yaml.YAMLToJSON([]byte(`{spec: {rules: ` + rules(80, 20) + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	patch(t, paths(team)[1], string(weights))
	expect("a canary", "unchanged", 80, 20, 1, flux(t, team, ignore, inGit))
	more := strings.Replace(inGit, "[shop.test]", "[shop.test, more.test]", 1)
	expect("another host", "configured", 80, 20, 2, flux(t, team, ignore, more))
	expect("another host, again", "unchanged", 80, 20, 2, flux(t, team, ignore, more))
	expect("without the recipe", "configured", 100, 0, 2, flux(t, team, "", more))
}

// TestSelectorsOfServices adds the hash of a ReplicaSet to the selector of a Service, as the Argo Rollouts controller
// does. A selector is one field for server-side apply, so Flux removes the hash, unless it ignores the selector by the
// recipe. Then it still applies other changes in Git.
func TestSelectorsOfServices(t *testing.T) {
	t.Parallel()
	team := namespace(t, "flux-selector")
	ignore := strings.ReplaceAll(recipe(t, "flux-selectors"), "name: shop-", "name: web-")
	service := func(port int) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: web-stable}, spec: {selector: {app: shop},
			ports: [{name: http, port: %d, targetPort: 8080, protocol: TCP}]}}`, port)
	}
	path := "/api/v1/namespaces/" + team + "/services/web-stable"
	const hash = "rollouts-pod-template-hash"
	switchTo := func(revision string) {
		t.Helper()
		patch(t, path, `{"spec":{"selector":{"`+hash+`":"`+revision+`"}}}`)
	}
	expect := func(what, became, revision string, port int32, done []string) {
		t.Helper()
		are(t, became, done)
		var live corev1.Service
		if !get(t, path, &live) || live.Spec.Selector[hash] != revision || live.Spec.Selector["app"] != "shop" ||
			live.Spec.Ports[0].Port != port {
			t.Errorf("%s: %+v, want hash %q and port %d", what, live.Spec, revision, port)
		}
	}
	expect("created", "created", "", 80, flux(t, team, ignore, service(80)))
	switchTo("one")
	expect("a canary", "unchanged", "one", 80, flux(t, team, ignore, service(80)))
	expect("another port", "configured", "one", 81, flux(t, team, ignore, service(81)))
	switchTo("two")
	expect("promoted", "unchanged", "two", 81, flux(t, team, ignore, service(81)))
	expect("without the recipe", "configured", "", 81, flux(t, team, "", service(81)))
}
