package rehearsal

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
)

// helm runs helm without settings of the user.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	home := t.TempDir()
	out, err := try(t, home, []string{"HOME=" + home, "KUBECONFIG="}, setting(t, "HELM_BIN"), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// charts is the repository of the chart in the registry.
func (r *rehearsed) charts() string {
	return "oci://" + r.registry + "/" + product.Organization + "/" + product.Charts
}

// testChart: helm pushes the chart to a registry, pulls the same bytes from there, and renders it with the images of
// the release.
func (r *rehearsed) testChart(t *testing.T) {
	file := r.asset("kedify-http-" + r.version + ".tgz")
	helm(t, "push", file, r.charts(), "--plain-http")
	folder := t.TempDir()
	chart := []string{r.charts() + "/kedify-http", "--version", r.version, "--plain-http"}
	helm(t, append([]string{"pull", "--destination", folder}, chart...)...)
	if !bytes.Equal(content(t, file), content(t, filepath.Join(folder, filepath.Base(file)))) {
		t.Error("the pulled chart is not the pushed one")
	}
	about := helm(t, append([]string{"show", "chart"}, chart...)...)
	if !strings.Contains(about, "appVersion: "+r.version+"\n") {
		t.Errorf("the chart has another appVersion than %s:\n%s", r.version, about)
	}
	rendered := helm(t, append([]string{"template", "kedify-http"}, chart...)...)
	for _, image := range []string{product.InterceptorImage, product.ScalerImage, product.AgentImage} {
		if !strings.Contains(rendered, r.published(image)) {
			t.Errorf("the rendered chart lacks image %s", r.published(image))
		}
	}
}
