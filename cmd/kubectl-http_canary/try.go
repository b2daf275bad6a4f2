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
	"github.com/kedify/argo-rollouts-plugin/internal/cli/try"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// mostRate bounds the load, so that a slip of the pen is no attack.
const mostRate = 1000

// try is what its command line asks for.
type tryOptions struct {
	way      *way
	form     output
	setup    try.Setup
	gateway  string
	agreed   bool
	limit    time.Duration
	progress io.Writer
}

// newTry returns the command that plays a throw-away canary.
func newTry(way *way) *cobra.Command {
	asked := &tryOptions{way: way}
	command := &cobra.Command{
		Use:   "try",
		Short: "Play a throw-away canary under load on this cluster, and remove all of it",
		Long: `try makes a namespace with a sample application of two Pods, sends it requests from a Pod inside the cluster, begins a canary,
measures at its step which share of the requests goes to it, promotes or aborts it, and removes the namespace, also when it
is interrupted. Nothing outside of that namespace is changed. It asks before it begins, unless --yes says so.

With kedify/http the namespace has proxies of its own. With argoproj-labs/gatewayAPI it has an HTTPRoute on the Gateway that
--gateway names, which has to allow routes of other namespaces.

It exits with 0 when the share was the one that was asked for and no request failed, with 3 when not, or when the
installation has a fault that no canary can do with, with 1 when it could not be played or not be removed, or was
interrupted.`,
		Example: `  # Router kedify/http
  kubectl http-canary try

  # The other one, without being asked, for a program
  kubectl http-canary try --router argoproj-labs/gatewayAPI --gateway istio-ingress/my-gateway --yes --output json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return asked.run(command.Context(), command)
		},
	}
	asked.form.addFlag(command)
	flags := command.Flags()
	flags.StringVar(&asked.setup.Router, "router", facts.HTTPRouter, "`name` of the router")
	flags.StringVar(&asked.gateway, "gateway", "", "`namespace/name` of the Gateway, with router "+facts.GatewayRouter)
	flags.StringVar(&asked.setup.Address, "address", "", "`host:port` by which Pods reach the Gateway; by default the first of its status and its first HTTP listener")
	flags.StringVar(&asked.setup.Image, "image", "", "`image` of the sample application; by default that of the command's own release")
	flags.IntVar(&asked.setup.Weight, "weight", 20, "`share` of the canary, in percent")
	flags.IntVar(&asked.setup.Rate, "rate", 100, "`requests` a second")
	flags.IntVar(&asked.setup.Requests, "requests", 1000, "`number` of requests that the share is measured by")
	flags.BoolVar(&asked.setup.Abort, "abort", false, "abort the canary in the end, in place of promoting it")
	flags.BoolVarP(&asked.agreed, "yes", "y", false, "do not ask")
	flags.DurationVar(&asked.limit, "time-limit", 5*time.Minute, "`time` that it may take until all of it is removed")
	// It fails for a flag that does not exist.
	_ = command.RegisterFlagCompletionFunc("router", cobra.FixedCompletions(
		[]string{facts.HTTPRouter, facts.GatewayRouter}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// check refuses what makes no sense, and fills in what is left to the release.
func (t *tryOptions) check() error {
	namespace, name, isGateway := strings.Cut(t.gateway, "/")
	needsGateway := t.setup.Router == facts.GatewayRouter
	switch {
	case !needsGateway && t.setup.Router != facts.HTTPRouter:
		return usage(fmt.Errorf("there is no router %q: the names are %s and %s", t.setup.Router, facts.HTTPRouter, facts.GatewayRouter))
	case needsGateway != (t.gateway != ""), isGateway != (t.gateway != ""), needsGateway && (namespace == "" || name == ""):
		return usage(fmt.Errorf("router %s and --gateway=NAMESPACE/NAME belong together", facts.GatewayRouter))
	case t.setup.Weight < 1 || t.setup.Weight > 99:
		return usage(errors.New("--weight is 1 to 99"))
	case t.setup.Rate < 1 || t.setup.Rate > mostRate:
		return usage(fmt.Errorf("--rate is 1 to %d", mostRate))
	case t.setup.Requests < 100 || t.setup.Requests > 100000:
		return usage(errors.New("--requests is 100 to 100000"))
	}
	t.setup.Gateway = types.NamespacedName{Namespace: namespace, Name: name}
	t.setup.Namespace = "http-canary-try-" + rand.String(5)
	release := strings.TrimPrefix(server.Version(version), "v")
	if t.setup.Image == "" {
		if !regexp.MustCompile(`^\d+\.\d+\.\d+(-[a-z]+\.\d+)?$`).MatchString(release) {
			return usage(fmt.Errorf("this command is %s, which is no release: say by --image which image is meant", release))
		}
		t.setup.Image = "ghcr.io/kedify/rollouts-demo:" + release
	}
	return nil
}

// run examines the installation, asks, and plays the canary.
func (t *tryOptions) run(ctx context.Context, command *cobra.Command) error {
	if err := t.check(); err != nil {
		return err
	}
	t.progress = command.OutOrStdout()
	if t.form == outputJSON || t.form == outputYAML {
		t.progress = command.ErrOrStderr()
	}
	client, err := t.way.client()
	if err != nil {
		return err
	}
	// Ctrl-C and the time limit both end the canary; the removal has a time of its own.
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	if err := t.examine(ctx, client); err != nil {
		return err
	}
	if err := t.reach(ctx, client); err != nil {
		return err
	}
	if err := t.confirm(ctx, command); err != nil {
		return err
	}
	result, err := try.New(client, t.setup, config.Files, lineTo(t.progress)).Run(ctx)
	if err != nil {
		return err
	}
	return t.conclude(command.OutOrStdout(), &result)
}

// examine finds what a canary cannot do without on this cluster: it asks doctor about the Rollout that it is going to make.
func (t *tryOptions) examine(ctx context.Context, client *kube.Client) error {
	reader := gather.New(client, t.setup.Namespace)
	cluster, err := reader.All(ctx)
	if err != nil {
		return err
	}
	rollout, err := t.setup.Rollout()
	if err != nil {
		return err
	}
	cluster.Rollouts = append(cluster.Rollouts, gather.Understand(rollout))
	reader.Ask(ctx, cluster, doctor.Questions(cluster))
	var found []doctor.Finding
	for _, finding := range doctor.Examine(cluster) {
		if finding.Severity == doctor.Error && !slices.Contains(beside(), finding.Code) {
			found = append(found, finding)
		}
	}
	if len(found) == 0 {
		return nil
	}
	if err := printFindings(t.progress, outputText, cluster, found); err != nil {
		return err
	}
	return errFinding
}

// beside are the findings that keep no canary from working: what it makes itself, and what only scales.
func beside() []doctor.Code {
	return []doctor.Code{
		doctor.ServiceNotFound, doctor.HTTPScaledObjectNotFound, doctor.RouteNotFound,
		doctor.KEDANotFound, doctor.KEDATooOld, doctor.KEDANotReady, doctor.ScaledRefKinds, doctor.ScalerNotFound, doctor.ScalerNotReady,
		doctor.AgentNotFound, doctor.AgentNotReady, doctor.AgentForbidden, doctor.WebhookNotReady,
	}
}

// gatewayObject is what is read of a Gateway.
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

// reach finds out by which address Pods reach the Gateway, unless that was said or there is none.
func (t *tryOptions) reach(ctx context.Context, client *kube.Client) error {
	if t.setup.Router != facts.GatewayRouter || t.setup.Address != "" {
		return nil
	}
	var gateway gatewayObject
	path := []string{"apis", "gateway.networking.k8s.io", "v1", "namespaces", t.setup.Gateway.Namespace, "gateways", t.setup.Gateway.Name}
	if err := client.Get(ctx, &gateway, path...); err != nil {
		return fmt.Errorf("gateway %s: %w", t.setup.Gateway, err)
	}
	for _, listener := range gateway.Spec.Listeners {
		if listener.Protocol == "HTTP" && len(gateway.Status.Addresses) > 0 {
			t.setup.Address = net.JoinHostPort(gateway.Status.Addresses[0].Value, strconv.Itoa(listener.Port))
			return nil
		}
	}
	return fmt.Errorf("gateway %s has no address, or no HTTP listener: say by --address how Pods reach it", t.setup.Gateway)
}

// errNotAgreed says that nothing was done because nobody wanted it.
var errNotAgreed = errors.New("nothing is done: answer y, or write --yes")

// confirm says what is going to be done where, and asks for it.
func (t *tryOptions) confirm(ctx context.Context, command *cobra.Command) error {
	raw, err := t.way.config().RawConfig()
	if err != nil {
		return err
	}
	chosen, server := raw.CurrentContext, ""
	if t.way.overrides.CurrentContext != "" {
		chosen = t.way.overrides.CurrentContext
	}
	if config, err := t.way.config().ClientConfig(); err == nil {
		server = config.Host
	}
	text := fmt.Sprintf("Context %s, %s: namespace %s is made, with an application of two Pods (%s) and %d requests a second, and removed in the end.\n",
		chosen, server, t.setup.Namespace, t.setup.Image, t.setup.Rate)
	if _, err := io.WriteString(t.progress, text); err != nil || t.agreed {
		return err
	}
	if _, err := io.WriteString(command.ErrOrStderr(), "Go on? [y/N] "); err != nil {
		return err
	}
	answer := make(chan string, 1)
	go func() {
		// Where nothing can be read nobody has agreed.
		line, _ := bufio.NewReader(command.InOrStdin()).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case said := <-answer:
		if said != "y" && said != "yes" {
			return errNotAgreed
		}
		return nil
	}
}

// conclude says what came of it.
func (t *tryOptions) conclude(out io.Writer, result *try.Result) error {
	if t.form == outputJSON || t.form == outputYAML {
		if err := printObject(out, t.form, result); err != nil {
			return err
		}
	} else {
		text := fmt.Sprintf("%d of %d requests failed, %.0f s\n", result.Failed, result.Requests, result.Seconds)
		for failure, count := range result.Failures {
			text = fmt.Sprintf("%d times: %s\n", count, failure) + text
		}
		if !result.Agrees {
			text = fmt.Sprintf("The share is not %d %%: no chance explains %d of %d\n", result.Weight, result.Canary, result.Measured) + text
		}
		if !result.EndAgrees {
			text = "Requests went to both versions after the end\n" + text
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
