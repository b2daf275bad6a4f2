package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/shell"
	"github.com/kedify/argo-rollouts-plugin/e2e/envoyadmin"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
)

// show runs commands and prints them with their output, as in a terminal.
func (d *demo) show(ctx context.Context, commands ...[]string) error {
	return d.shell().ShowAll(ctx, commands...)
}

// shell returns the shell of the commands.
func (d *demo) shell() shell.Shell {
	return shell.Shell{
		Runner: d.runner, Screen: d.screen, Style: d.style, Within: d.Command, OnCommand: d.display.setStatus,
	}
}

// weightsCommand returns the guide's command that prints the annotation.
func (d *demo) weightsCommand() []string {
	return guide.Kubectl("get", "httpso", app, "-o", `jsonpath={.metadata.annotations.http\.kedify\.io/weighted-backends}`)
}

// showGuide runs the guide's checks during a canary.
func (d *demo) showGuide(ctx context.Context) error {
	err := d.show(ctx,
		guide.Kubectl("get", "rollout,httpso"),
		d.weightsCommand(),
		[]string{"kubectl", "argo", "rollouts", "get", "rollout", app, "-n", guide.Namespace},
	)
	if err != nil {
		return err
	}
	dump, err := d.envoy.Dump(ctx)
	if err != nil {
		return err
	}
	lines := envoyadmin.NameLines(dump, app)
	d.screen.Print(append([]string{d.style.Command(`curl -s localhost:9901/config_dump | grep -E '"name": "[^"]*` +
		app + `'`)}, lines...)...)
	for _, service := range []string{stable, canary} {
		if !strings.Contains(strings.Join(lines, "\n"), `"`+cluster(service)+`"`) {
			return fmt.Errorf("config_dump names no cluster %s: %w", cluster(service), guide.ErrCheck)
		}
	}
	return nil
}

// isGone checks with the guide's command that there is no annotation.
func (d *demo) isGone(ctx context.Context) error {
	out, err := d.shell().Show(ctx, d.weightsCommand()...)
	if err != nil {
		return err
	}
	last := d.display.change(func(*report.Row) {})
	check := report.Check{
		Name: "the annotation is gone (" + last.Canary + ", " + last.Step + ")", OK: strings.TrimSpace(out) == "",
		Detail: kube.ShortWeights(strings.TrimSpace(out)), Invariant: invariant.End,
	}
	d.outcome.Checks = append(d.outcome.Checks, check)
	if !check.OK {
		return fmt.Errorf("%s: %w: it says %s", check.Name, guide.ErrCheck, check.Detail)
	}
	return nil
}

// Diagnose prints information about a failed run.
func Diagnose(ctx context.Context, terminal shell.Shell) {
	tail := []string{"--tail=25", "--prefix"}
	commands := [][]string{
		{"kubectl", "get", "pods", "-A", "-o", "wide"},
		{"kubectl", "argo", "rollouts", "get", "rollout", app, "-n", guide.Namespace},
		guide.Kubectl("get", "httpso", app, "-o", "yaml"),
		guide.Kubectl("get", "ingress,scaledobject,hpa", "-o", "yaml"),
		guide.Kubectl("get", "events", "--sort-by=.lastTimestamp"),
		guide.Kubectl(append([]string{"logs", "-l", "app=kedify-proxy"}, tail...)...),
	}
	for _, part := range []string{"interceptor", "agent", "scaler"} {
		commands = append(commands, append([]string{
			"kubectl", "-n", "keda", "logs", "-l",
			"app.kubernetes.io/component=" + part,
		}, tail...))
	}
	commands = append(commands, append([]string{"kubectl", "-n", "argo-rollouts", "logs", "deploy/argo-rollouts"},
		tail...))
	style := terminal.Style
	terminal.Screen.Print("", style.Heading("What the cluster says"))
	for _, args := range commands {
		if ctx.Err() != nil {
			return
		}
		out, err := terminal.Run(ctx, args...)
		lines := append([]string{"", style.Command(shell.Line(args))}, lastLines(shell.Lines(out), 40)...)
		if err != nil && !errors.Is(err, context.Canceled) {
			lines = append(lines, style.Bad(err.Error()))
		}
		terminal.Screen.Print(lines...)
	}
}

// lastLines returns the last n lines.
func lastLines(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }
