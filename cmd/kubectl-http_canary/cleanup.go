package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/cleanup"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/lease"
)

// writeTimeout bounds one removal.
const writeTimeout = 10 * time.Second

// fieldManager is the field manager of cleanup's writes, the same as that of install.
const fieldManager = manifests.ManagedBy

// errNotRemoved reports failed removals. The errors have already been printed.
var errNotRemoved = errors.New("some leftovers could not be removed")

// cleanupOptions are the options of the command.
type cleanupOptions struct {
	outputFlags

	conn    *connection
	isAll   bool
	apply   bool
	unowned bool
	timeout time.Duration
}

// newCleanup returns the command that finds and removes leftovers.
func newCleanup(conn *connection) *cobra.Command {
	options := &cleanupOptions{conn: conn}
	command := &cobra.Command{
		Use:   "cleanup",
		Short: "Find and remove what deleted or changed Rollouts left behind",
		Long: `cleanup finds weights and routes that deleted Rollouts, or Rollouts that now reference other
objects, left on HTTPScaledObjects, InterceptorRoutes and Gateway API routes. The controller does not call
the router in these cases, so the traffic split stays active. It also finds objects of components that are
no longer installed. It changes nothing without --apply.

Each removal is one request that fails if the object has changed since it was read. Weights without an owner
annotation may be set by a user: they are listed, and removed only with --unowned. cleanup searches
the namespace given by --namespace or by the context; all namespaces with --all-namespaces, or if neither names one.

The exit code is 3 if there are leftovers, and 0 if there are none.`,
		Example: `  # List leftovers
  kubectl http-canary cleanup

  # Remove them
  kubectl http-canary cleanup --apply`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return options.run(command.Context(), command.OutOrStdout())
		},
	}
	options.addFormat(command)
	addAllNamespaces(command.Flags(), &options.isAll)
	command.Flags().BoolVar(&options.apply, "apply", false, "remove the leftovers")
	command.Flags().BoolVar(&options.unowned, "unowned", false,
		"with --apply, also remove weights without an owner annotation (may be user-set)")
	addTimeout(command.Flags(), &options.timeout, 5*time.Minute, "maximum `time` for the command")
	return command
}

// result is a leftover and the outcome of its removal.
type result struct {
	cleanup.Leftover

	Removed bool   `json:"removed"`
	Error   string `json:"error,omitempty"`
}

// run finds leftovers, removes them with --apply, and prints the results.
func (c *cleanupOptions) run(ctx context.Context, out io.Writer) error {
	client, err := c.conn.client()
	if err != nil {
		return err
	}
	namespace, err := c.conn.namedScope(c.isAll)
	if err != nil {
		return err
	}
	ctx, cancel := withTimeout(ctx, c.timeout)
	defer cancel()
	cluster, err := gather.New(client, namespace).ForCleanup(ctx)
	if err != nil {
		return err
	}
	results := []result{}
	for _, leftover := range cleanup.Find(cluster, namespace) {
		entry := result{Leftover: leftover}
		if c.apply && (c.unowned || !leftover.Unowned) {
			err := remove(ctx, client, leftover.Removal)
			entry.Removed = err == nil
			if err != nil {
				entry.Error = err.Error()
			}
		}
		results = append(results, entry)
	}
	if err := c.print(out, results); err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(results, func(r result) bool { return r.Error != "" }):
		return errNotRemoved
	case slices.ContainsFunc(results, func(r result) bool { return !r.Removed }):
		return errFinding
	}
	return nil
}

// print prints the results.
func (c *cleanupOptions) print(out io.Writer, results []result) error {
	if c.format.IsObject() {
		return output.Print(out, c.format, "LeftoverList", map[string]any{"leftovers": results})
	}
	var text strings.Builder
	for _, entry := range results {
		state := "LEFTOVER"
		switch {
		case entry.Error != "":
			state = "NOT REMOVED"
		case entry.Removed:
			state = "REMOVED"
		case entry.Unowned:
			state = "POSSIBLE LEFTOVER"
		}
		var kinds []string
		for _, kind := range entry.Kinds {
			kinds = append(kinds, string(kind))
		}
		fmt.Fprintf(&text, "%s %s\n  object   %s\n  problem  %s\n", state, strings.Join(kinds, ", "), entry.Object,
			entry.Message)
		if entry.Error != "" {
			fmt.Fprintf(&text, "  error    %s\n", entry.Error)
		}
		if c.format == output.Wide && entry.Removal.Patch != nil {
			patch, err := json.Marshal(entry.Removal.Patch)
			if err != nil {
				return err
			}
			fmt.Fprintf(&text, "  patch    %s\n", patch)
		}
	}
	if len(results) == 0 {
		text.WriteString("No leftovers found.\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// remove sends a removal. It fails if the object has changed since it was read.
func remove(ctx context.Context, client *kube.Client, removal cleanup.Removal) error {
	request, err := removalRequest(removal)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if _, err := client.Do(ctx, request); err != nil {
		return fmt.Errorf("%w: if the object has changed in the meantime, run the command again", err)
	}
	return nil
}

// removalRequest returns the API request of a removal.
func removalRequest(removal cleanup.Removal) (kube.Request, error) {
	query := map[string]string{"fieldManager": fieldManager}
	switch {
	case removal.Route != nil:
		route := removal.Route
		version, _ := route.Content["apiVersion"].(string)
		path := append([]string{"apis"}, strings.Split(version, "/")...)
		body, err := json.Marshal(route.Content)
		return kube.Request{
			Verb: http.MethodPut, Path: append(path, "namespaces", route.Name.Namespace, route.Kind.Resource(),
				route.Name.Name), Query: query, Body: body,
		}, err
	case removal.Lease != nil:
		return deleteRequest(removal.Lease, leasePath(removal.Lease)...)
	case removal.Uninstalled != nil:
		body, err := json.Marshal(map[string]any{
			"metadata": map[string]any{
				"uid": removal.Uninstalled.UID, "resourceVersion": removal.Uninstalled.ResourceVersion,
			},
			"spec": map[string]any{"holderIdentity": lease.Uninstalled},
		})
		return kube.Request{
			Verb: http.MethodPatch, Path: leasePath(removal.Uninstalled), Query: query,
			ContentType: string(types.MergePatchType), Body: body,
		}, err
	case removal.Namespace != nil:
		return deleteRequest(removal.Namespace, "api", "v1", "namespaces", removal.Namespace.Name.Name)
	default:
		body, err := json.Marshal(removal.Patch)
		version, resource := httpv1alpha1.Version, httpv1alpha1.Resource
		if removal.Kind == httpv1beta1.Kind {
			version, resource = httpv1beta1.Version, httpv1beta1.Resource
		}
		path := []string{
			"apis", httpv1alpha1.Group, version, "namespaces", removal.Object.Namespace, resource, removal.Object.Name,
		}
		return kube.Request{
			Verb: http.MethodPatch, Path: path, Query: query, ContentType: string(types.JSONPatchType),
			Body: body,
		}, err
	}
}

// leasePath returns the API path of a Lease.
func leasePath(precondition *cleanup.Precondition) []string {
	name := precondition.Name
	return []string{"apis", "coordination.k8s.io", "v1", "namespaces", name.Namespace, "leases", name.Name}
}

// deleteRequest returns the request that deletes the object at path if its UID and resource version match the
// precondition.
func deleteRequest(precondition *cleanup.Precondition, path ...string) (kube.Request, error) {
	body, err := json.Marshal(metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		UID:             &precondition.UID,
		ResourceVersion: &precondition.ResourceVersion,
	}})
	return kube.Request{Verb: http.MethodDelete, Path: path, Body: body}, err
}
