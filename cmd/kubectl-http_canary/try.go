package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/kedify/argo-rollouts-plugin/config"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/doctor"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/try"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// maxRate bounds the load in requests per second, so that a typo does not overload the cluster.
const maxRate = 1000

// tryOptions are the options of the command.
type tryOptions struct {
	outputFlags

	conn      *connection
	show      *display
	setup     try.Setup
	gateway   string
	confirmed bool
	timeout   time.Duration
	progress  io.Writer
}

// newTry returns the command that runs a throwaway canary.
func newTry(conn *connection, show *display) *cobra.Command {
	options := &tryOptions{conn: conn, show: show}
	command := &cobra.Command{
		Use:   "try",
		Short: "Run a throwaway canary under load on this cluster, and remove it again",
		Long: `try creates a namespace with a 2-Pod sample application and sends it requests from a Pod in the
cluster. It starts a canary, measures the percentage of requests that the canary receives at its step, promotes
or aborts the canary, and deletes the namespace, even if interrupted. It changes nothing outside of that
namespace. It asks for confirmation unless --yes is set.

With kedify/http, the namespace has its own proxies. With argoproj-labs/gatewayAPI, it has an HTTPRoute attached
to the Gateway given by --gateway, which must allow routes from other namespaces.

The exit code is 0 if the measured percentage matches the weight and no request failed. It is 3 if not, or if
the installation has a problem that prevents any canary. It is 1 if the canary could not be run to its end, was
interrupted, or could not be removed.`,
		Example: `  # Use router kedify/http
  kubectl http-canary try

  # Use a Gateway, without confirmation, with machine-readable output
  kubectl http-canary try --router argoproj-labs/gatewayAPI --gateway istio-ingress/my-gateway --yes --output json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return options.run(command.Context(), command)
		},
	}
	options.addFormat(command)
	flags := command.Flags()
	flags.StringVar(&options.setup.Router, "router", facts.HTTPRouter, "`name` of the router")
	flags.StringVar(&options.gateway, "gateway", "",
		"`namespace/name` of the Gateway, required by router "+facts.GatewayRouter)
	flags.StringVar(&options.setup.Address, "address", "",
		"`host:port` at which Pods reach the Gateway (default: its first status address and first HTTP listener)")
	flags.StringVar(&options.setup.Image, "image", "",
		"`image` of the sample application (default: the release of this command)")
	flags.IntVar(&options.setup.Weight, "weight", 20, "`weight` of the canary, in percent")
	flags.IntVar(&options.setup.Rate, "rate", 100, "`requests` per second")
	flags.IntVar(&options.setup.Requests, "requests", 1000, "`number` of requests to measure")
	flags.BoolVar(&options.setup.Abort, "abort", false, "abort the canary at the end instead of promoting it")
	flags.BoolVarP(&options.confirmed, "yes", "y", false, "do not ask for confirmation")
	addTimeout(flags, &options.timeout, 5*time.Minute, "maximum `time` before the canary is stopped and removed")
	// The error is for an unknown flag.
	_ = command.RegisterFlagCompletionFunc("router", cobra.FixedCompletions(
		[]string{facts.HTTPRouter, facts.GatewayRouter}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// complete validates the options and sets the defaults that depend on the release.
func (t *tryOptions) complete() error {
	namespace, name, isGateway := strings.Cut(t.gateway, "/")
	needsGateway := t.setup.Router == facts.GatewayRouter
	switch {
	case !needsGateway && t.setup.Router != facts.HTTPRouter:
		return usageError(fmt.Errorf("unknown router %q: use %s or %s", t.setup.Router, facts.HTTPRouter,
			facts.GatewayRouter))
	case needsGateway != (t.gateway != ""), isGateway != (t.gateway != ""),
		needsGateway && (namespace == "" || name == ""):
		return usageError(fmt.Errorf("--router=%s and --gateway=NAMESPACE/NAME require each other",
			facts.GatewayRouter))
	case t.setup.Weight < 1 || t.setup.Weight > 99:
		return usageError(errors.New("--weight must be between 1 and 99"))
	case t.setup.Rate < 1 || t.setup.Rate > maxRate:
		return usageError(fmt.Errorf("--rate must be between 1 and %d", maxRate))
	case t.setup.Requests < 100 || t.setup.Requests > 100000:
		return usageError(errors.New("--requests must be between 100 and 100000"))
	}
	t.setup.Gateway = types.NamespacedName{Namespace: namespace, Name: name}
	t.setup.Namespace = "http-canary-try-" + rand.String(5)
	release := strings.TrimPrefix(server.Version(version), "v")
	if t.setup.Image == "" {
		if !regexp.MustCompile(`^\d+\.\d+\.\d+(-[a-z]+\.\d+)?$`).MatchString(release) {
			return usageError(fmt.Errorf("not a release build (version %s): specify --image", release))
		}
		t.setup.Image = config.Registry + "/" + config.SampleImage + ":" + release
	}
	return nil
}

// run checks the installation, asks for confirmation, and runs the canary.
func (t *tryOptions) run(ctx context.Context, command *cobra.Command) error {
	if err := t.complete(); err != nil {
		return err
	}
	t.progress = command.OutOrStdout()
	if t.format.IsObject() {
		t.progress = command.ErrOrStderr()
	}
	client, err := t.conn.client()
	if err != nil {
		return err
	}
	// Ctrl-C and the time limit both stop the canary; the removal has its own timeout.
	ctx, cancel := withTimeout(ctx, t.timeout)
	defer cancel()
	if err := t.checkInstallation(ctx, client); err != nil {
		return err
	}
	if err := t.resolveAddress(ctx, client); err != nil {
		return err
	}
	if err := t.confirm(ctx, command); err != nil {
		return err
	}
	result, err := try.New(client, t.setup, config.Files, linePrinter(t.progress)).Run(ctx)
	if err != nil {
		return err
	}
	return t.printResult(command.OutOrStdout(), &result)
}

// checkInstallation runs the checks of doctor with the Rollout that the trial will create. It fails if a finding
// prevents the canary.
func (t *tryOptions) checkInstallation(ctx context.Context, client *kube.Client) error {
	reader := gather.New(client, t.setup.Namespace)
	cluster, err := reader.All(ctx)
	if err != nil {
		return err
	}
	rollout, err := t.setup.Rollout()
	if err != nil {
		return err
	}
	cluster.Rollouts = append(cluster.Rollouts, gather.ParseRollout(rollout))
	reader.ReviewPermissions(ctx, cluster, doctor.RequiredPermissions(cluster))
	var problems []doctor.Finding
	for _, finding := range doctor.Examine(cluster) {
		if finding.Severity == doctor.Error && !slices.Contains(ignoredCodes(), finding.Code) {
			problems = append(problems, finding)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	if err := doctor.PrintFindings(t.progress, t.show.style(t.progress), problems); err != nil {
		return err
	}
	return errFinding
}

// ignoredCodes are the findings that do not prevent the canary: about objects that the trial creates itself, and about
// autoscaling.
func ignoredCodes() []doctor.Code {
	return []doctor.Code{
		doctor.ServiceNotFound, doctor.HTTPScaledObjectNotFound, doctor.RouteNotFound,
		doctor.KEDANotFound, doctor.KEDATooOld, doctor.KEDANotReady, doctor.ScaledRefKinds, doctor.ScalerNotFound,
		doctor.ScalerNotReady,
		doctor.AgentNotFound, doctor.AgentNotReady, doctor.AgentForbidden, doctor.WebhookNotReady,
	}
}

// gatewayObject contains the required fields of a Gateway.
type gatewayObject struct {
	Spec struct {
		Listeners []struct {
			Protocol string `json:"protocol"`
			Port     int    `json:"port"`
		} `json:"listeners"`
	} `json:"spec"`
	Status struct {
		Addresses []struct {
			Value string `json:"value"`
		} `json:"addresses"`
	} `json:"status"`
}

// resolveAddress sets the address at which Pods reach the Gateway, unless it was specified or no Gateway is used.
func (t *tryOptions) resolveAddress(ctx context.Context, client *kube.Client) error {
	if t.setup.Router != facts.GatewayRouter || t.setup.Address != "" {
		return nil
	}
	var gateway gatewayObject
	path := []string{
		"apis", "gateway.networking.k8s.io", "v1", "namespaces", t.setup.Gateway.Namespace, "gateways",
		t.setup.Gateway.Name,
	}
	if err := client.Get(ctx, &gateway, path...); err != nil {
		return fmt.Errorf("gateway %s: %w", t.setup.Gateway, err)
	}
	for _, listener := range gateway.Spec.Listeners {
		if listener.Protocol == "HTTP" && len(gateway.Status.Addresses) > 0 {
			t.setup.Address = net.JoinHostPort(gateway.Status.Addresses[0].Value, strconv.Itoa(listener.Port))
			return nil
		}
	}
	return fmt.Errorf("gateway %s: no status address or no HTTP listener: specify --address", t.setup.Gateway)
}

// errNotConfirmed reports that the user has not confirmed.
var errNotConfirmed = errors.New("not confirmed: answer y or use --yes")

// confirm prints what will be created and where, and asks for confirmation.
func (t *tryOptions) confirm(ctx context.Context, command *cobra.Command) error {
	raw, err := t.conn.config().RawConfig()
	if err != nil {
		return err
	}
	contextName, server := raw.CurrentContext, ""
	if t.conn.overrides.CurrentContext != "" {
		contextName = t.conn.overrides.CurrentContext
	}
	if config, err := t.conn.config().ClientConfig(); err == nil {
		server = config.Host
	}
	text := fmt.Sprintf("This will create namespace %s in context %s (%s) with a 2-Pod application (%s) and %d "+
		"requests/s of load, and delete it afterwards.\n",
		t.setup.Namespace, contextName, server, t.setup.Image, t.setup.Rate)
	if _, err := io.WriteString(t.progress, text); err != nil || t.confirmed {
		return err
	}
	if _, err := io.WriteString(command.ErrOrStderr(), "Continue? [y/N] "); err != nil {
		return err
	}
	answer := make(chan string, 1)
	go func() {
		// End of input counts as no.
		line, _ := bufio.NewReader(command.InOrStdin()).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case answered := <-answer:
		if answered != "y" && answered != "yes" {
			return errNotConfirmed
		}
		return nil
	}
}

// printResult prints the result. It returns errFinding if the canary has not passed.
func (t *tryOptions) printResult(out io.Writer, result *try.Result) error {
	if t.format.IsObject() {
		if err := output.Print(out, t.format, "TrialResult", result); err != nil {
			return err
		}
	} else {
		text := fmt.Sprintf("%d of %d requests failed, %.0f s\n", result.Failed, result.Requests, result.Seconds)
		for failure, count := range result.Failures {
			text = fmt.Sprintf("%d times: %s\n", count, failure) + text
		}
		if !result.Agrees {
			text = fmt.Sprintf("Traffic split does not match weight %d %%: the canary got %d of %d requests, beyond "+
				"statistical variation\n", result.Weight, result.Canary, result.Measured) + text
		}
		if !result.EndAgrees {
			text = "Requests still went to both versions after the end of the canary\n" + text
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
	}
	if !result.Passed() {
		return errFinding
	}
	return nil
}
