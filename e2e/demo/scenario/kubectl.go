package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/envoyadmin"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
)

// kubectl is a command in the guide's namespace.
func (d *demo) kubectl(args ...string) []string {
	return append([]string{"kubectl", "-n", Namespace}, args...)
}

// show runs commands and prints them with what they say, as in a terminal.
func (d *demo) show(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		d.board.say(commandLine(args))
		out, err := run(ctx, d.runner, d.Command, args...)
		d.screen.Print(append([]string{d.style.Command(commandLine(args))}, outputLines(out)...)...)
		if err != nil {
			return err
		}
	}
	return nil
}

// run runs one command with a deadline.
func run(ctx context.Context, runner kube.Runner, within time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return runner.Run(ctx, args...)
}

// outputLines splits what a command said.
func outputLines(out string) []string {
	out = strings.TrimRight(out, "\n")
	if out == "" {
		return nil
	}
	return strings.Split(out, "\n")
}

// commandLine is a command as one would type it into a shell.
func commandLine(args []string) string {
	const special = ` '"\{}*?$&|;<>()`
	quoted := make([]string, 0, len(args))
	for _, arg := range args {
		name, value, assigned := strings.Cut(arg, "=")
		switch {
		case !strings.ContainsAny(arg, special):
		case assigned && !strings.ContainsAny(name, special):
			arg = name + "=" + quote(value)
		default:
			arg = quote(arg)
		}
		quoted = append(quoted, arg)
	}
	return strings.Join(quoted, " ")
}

// quote keeps a shell from reading anything into a text.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// weightsCommand is the guide's command that prints the annotation.
func (d *demo) weightsCommand() []string {
	return d.kubectl("get", "httpso", app, "-o", `jsonpath={.metadata.annotations.http\.kedify\.io/weighted-backends}`)
}

// showGuide goes through what the guide looks at during a canary.
func (d *demo) showGuide(ctx context.Context) error {
	err := d.show(ctx,
		d.kubectl("get", "rollout,httpso"),
		d.weightsCommand(),
		[]string{"kubectl", "argo", "rollouts", "get", "rollout", app, "-n", Namespace},
	)
	if err != nil {
		return err
	}
	dump, err := d.envoy.Dump(ctx)
	if err != nil {
		return err
	}
	lines := envoyadmin.NameLines(dump, app)
	d.screen.Print(append([]string{d.style.Command(`curl -s localhost:9901/config_dump | grep -E '"name": "[^"]*` + app + `'`)}, lines...)...)
	for _, service := range []string{stable, canary} {
		if !strings.Contains(strings.Join(lines, "\n"), `"`+cluster(service)+`"`) {
			return fmt.Errorf("config_dump names no cluster %s: %w", cluster(service), ErrCheck)
		}
	}
	return nil
}

// gone asks for the annotation with the guide's command; there must be none.
func (d *demo) gone(ctx context.Context) error {
	args := d.weightsCommand()
	out, err := run(ctx, d.runner, d.Command, args...)
	d.screen.Print(append([]string{d.style.Command(commandLine(args))}, outputLines(out)...)...)
	if err != nil {
		return err
	}
	last := d.board.change(func(*report.Row) {})
	check := report.Check{
		Name: "the annotation is gone (" + last.Canary + ", " + last.Step + ")", OK: strings.TrimSpace(out) == "",
		Detail: kube.ShortWeights(strings.TrimSpace(out)),
	}
	d.outcome.Checks = append(d.outcome.Checks, check)
	if !check.OK {
		return fmt.Errorf("%s: %w: it says %s", check.Name, ErrCheck, check.Detail)
	}
	return nil
}

// mark is the label of the demo's own namespace, in e2e/demo/namespace.yaml.
const mark = "app.kubernetes.io/managed-by=kedify-canary-demo"

// removeLeftovers deletes what an earlier run has left. A namespace of that name
// that is not the demo's is the user's.
func (d *demo) removeLeftovers(ctx context.Context) error {
	there := func(selector string) (bool, error) {
		out, err := run(ctx, d.runner, d.Command, "kubectl", "get", "ns", "-l", selector, "-o", "name")
		return strings.TrimSpace(out) != "", err
	}
	left, err := there(named)
	if err != nil || !left {
		return err
	}
	ours, err := there(named + "," + mark)
	if err != nil {
		return err
	}
	if !ours {
		return fmt.Errorf("%w: namespace %s is there and not this demo's, by its labels; delete it, or give it to the demo, "+
			"which deletes it with all that is in it: kubectl label ns %s %s", ErrForeign, Namespace, Namespace, mark)
	}
	d.screen.Print(fmt.Sprintf("The namespace %s is left from an earlier run; it is deleted first.", Namespace))
	return Remove(ctx, d.runner, d.Delete)
}

// named selects the namespace by its name.
const named = "kubernetes.io/metadata.name=" + Namespace

// Remove deletes the demo's namespace, if it is the demo's, and waits until it is
// gone.
func Remove(ctx context.Context, runner kube.Runner, within time.Duration) error {
	_, err := run(ctx, runner, within, "kubectl", "delete", "ns", "-l", named+","+mark)
	return err
}

// Diagnose prints what helps to see why a run failed. Each of its commands ends
// within the given time.
func Diagnose(ctx context.Context, runner kube.Runner, screen Screen, style report.Style, within time.Duration) {
	tail := []string{"--tail=25", "--prefix"}
	commands := [][]string{
		{"kubectl", "argo", "rollouts", "get", "rollout", app, "-n", Namespace},
		{"kubectl", "-n", Namespace, "get", "httpso", app, "-o", "yaml"},
		{"kubectl", "get", "pods", "-A", "-o", "wide"},
		{"kubectl", "-n", Namespace, "get", "events", "--sort-by=.lastTimestamp"},
		append([]string{"kubectl", "-n", "argo-rollouts", "logs", "deploy/argo-rollouts"}, tail...),
		append([]string{"kubectl", "-n", "keda", "logs", "-l", "app.kubernetes.io/component=interceptor"}, tail...),
		append([]string{"kubectl", "-n", Namespace, "logs", "-l", "app=kedify-proxy"}, tail...),
	}
	screen.Print("", style.Heading("What the cluster says"))
	for _, args := range commands {
		if ctx.Err() != nil {
			return
		}
		out, err := run(ctx, runner, within, args...)
		lines := append([]string{"", style.Command(commandLine(args))}, lastLines(outputLines(out), 40)...)
		if err != nil && !errors.Is(err, context.Canceled) {
			lines = append(lines, style.Bad(err.Error()))
		}
		screen.Print(lines...)
	}
}

// lastLines keeps the last n lines.
func lastLines(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }
