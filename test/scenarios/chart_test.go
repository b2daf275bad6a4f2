package scenarios_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/test/kit/rolloutscontroller"
)

const (
	// chartVariable is the environment variable with the folder of argo-helm's chart of Argo Rollouts, renderVariable the
	// one with the program that renders it with Helm's library.
	chartVariable  = "ROLLOUTS_CHART"
	renderVariable = "RENDER_CHART"
)

// installChart installs Argo Rollouts with argo-helm's chart and the values of docs/how-to/install-plugins.md, alone
// and as a subchart, which must give the same result, and further manifests from files. All permissions of the routers
// come from these values and the chart's defaults.
func (c *cluster) installChart(ctx context.Context, files ...string) error {
	values, err := c.values()
	if err != nil {
		return err
	}
	alone, err := c.render(ctx, os.Getenv(chartVariable), values)
	if err != nil {
		return err
	}
	parent := filepath.Join(c.folder, "parent")
	if err := errors.Join(os.MkdirAll(filepath.Join(parent, "charts"), 0o750),
		os.Symlink(os.Getenv(chartVariable), filepath.Join(parent, "charts", "argo-rollouts")),
		os.WriteFile(filepath.Join(parent, "Chart.yaml"), []byte("{apiVersion: v2, name: parent, version: 0.1.0}\n"),
			0o600)); err != nil {
		return err
	}
	below, err := c.render(ctx, parent, "argo-rollouts:\n  "+strings.ReplaceAll(values, "\n", "\n  "))
	if err != nil {
		return err
	}
	if alone != below {
		return fmt.Errorf("the chart below another one is rendered otherwise: %d bytes, alone %d", len(below), len(alone))
	}
	return rolloutscontroller.InstallManifest(ctx, c.admin, alone, files...)
}

// values returns the values of option A with the built plugins.
func (c *cluster) values() (string, error) {
	page, err := os.ReadFile("../../docs/how-to/install-plugins.md")
	if err != nil {
		return "", err
	}
	block := regexp.MustCompile("(?s)\n## Option A[^\n]*\n.*?```yaml\n(.*?)```").FindSubmatch(page)
	if block == nil {
		return "", errors.New("docs/how-to/install-plugins.md has no values for the chart below Option A")
	}
	values := regexp.MustCompile(`"https://[^"]*/([a-z-]+)-linux-amd64"`).ReplaceAllString(string(block[1]),
		`"file://`+c.folder+`/$1"`)
	for _, name := range []string{"rollouts-plugin-kedify", "gatewayapi-plugin"} {
		binary, err := os.ReadFile(filepath.Join(c.folder, name))
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(binary)
		values = strings.ReplaceAll(values, "<sum of "+name+"-linux-amd64>", hex.EncodeToString(sum[:]))
	}
	if strings.Contains(values, "<sum") || strings.Count(values, "file://") != 2 {
		return "", fmt.Errorf("the values of option A are not the two plugins of a release:\n%s", values)
	}
	return values, nil
}

// render renders a chart, without comments: they contain file names of the chart.
func (c *cluster) render(ctx context.Context, chart, values string) (string, error) {
	file := filepath.Join(c.folder, "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		return "", err
	}
	var said bytes.Buffer
	command := exec.CommandContext(ctx, os.Getenv(renderVariable), "--chart", chart, "--release", "argo-rollouts",
		"--namespace", rolloutscontroller.Namespace, "--values", file)
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("render the chart %s: %w: %s", chart, err, said.String())
	}
	return regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(out), ""), nil
}
