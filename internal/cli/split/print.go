package split

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
)

// PrintList prints canaries as a table: in format Wide with their Services and objects, in format Name as
// resource/name. now is the time for the column AGE.
func PrintList(out io.Writer, format output.Format, hasHeaders, hasNamespaces bool, all []Entry, now time.Time) error {
	if format == output.Name {
		var text strings.Builder
		for _, entry := range all {
			fmt.Fprintf(&text, "rollout.argoproj.io/%s\n", entry.Name)
		}
		_, err := io.WriteString(out, text.String())
		return err
	}
	columns := output.Columns("NAME", "ROUTER", "STEP", "STABLE/CANARY", "WEIGHT", "VERIFIED", "PROXIES", "STATUS", "AGE",
		"SERVICES+", "OBJECTS+")
	if hasNamespaces {
		columns = append(output.Columns("NAMESPACE"), columns...)
	}
	table := output.Rows{Columns: columns}
	for _, entry := range all {
		proxies := ""
		if entry.Proxies != nil {
			proxies = ratio(entry.Proxies.Acked, entry.Proxies.Ready)
		}
		cells := []string{
			entry.Name, entry.Router, ratio(entry.Step, entry.Steps), ratio(entry.StableEndpoints, entry.CanaryEndpoints),
			strconv.FormatInt(entry.Weight, 10), string(entry.Verified), proxies, entry.Phase, age(entry.Created, now),
			entry.StableService + "," + entry.CanaryService, strings.Join(entry.Objects, ","),
		}
		if hasNamespaces {
			cells = append([]string{entry.Namespace}, cells...)
		}
		table.Add(cells...)
	}
	return table.Print(out, format, hasHeaders)
}

// PrintStatus prints the overview of one canary: its state, its conditions, and the weights of each Service in each
// routing object. Format Wide adds the hashes of the Pods; format Name prints resource/name only.
func PrintStatus(out io.Writer, format output.Format, hasHeaders bool, style output.Style, report *Report) error {
	if format == output.Name {
		_, err := fmt.Fprintln(out, resourceName(report))
		return err
	}
	var text strings.Builder
	head(&text, style, report)
	conditions := output.Rows{Columns: output.Columns("CONDITION", "STATUS", "REASON", "MESSAGE")}
	for _, condition := range report.Conditions {
		conditions.Add(condition.Type, string(condition.Status), condition.Reason, condition.Message)
	}
	if err := conditions.Print(&text, format, hasHeaders); err != nil {
		return err
	}
	text.WriteString("\n")
	weights := output.Rows{Columns: output.Columns("ROLE", "SERVICE", "PODS+", "ENDPOINTS", "DESIRED", "WRITTEN", "APPLIED",
		"OBJECT")}
	for _, object := range report.Objects {
		for i, service := range report.Services {
			weights.Add(string(service.Role), service.Name, service.Hash, strconv.Itoa(service.Endpoints),
				strconv.FormatInt(service.Desired, 10), Weight(object, i), string(object.Applied), object.Name)
		}
	}
	if err := weights.Print(&text, format, hasHeaders); err != nil {
		return err
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// head prints the state of the Rollout.
func head(text *strings.Builder, style output.Style, report *Report) {
	if report.Rollout == "" {
		fmt.Fprintf(text, "%s is referenced by no Rollout\n\n", style.Title(report.Objects[0].Name))
		return
	}
	phase := report.Phase
	if report.Message != "" {
		phase += " (" + report.Message + ")"
	}
	fmt.Fprintf(text, "Rollout:    %s\nRouter:     %s\nPhase:      %s\nStep:       %d/%d\nReplicas:   %d total, "+
		"%d updated, %d available\n\n", style.Title(report.Rollout), report.Router, phase, report.Step, report.Steps,
		report.Replicas.Total, report.Replicas.Updated, report.Replicas.Available)
}

// resourceName returns the resource and the name of the subject of a report.
func resourceName(report *Report) string {
	if report.Rollout == "" {
		return "httpscaledobject.http.keda.sh/" + report.Objects[0].Name[strings.LastIndex(report.Objects[0].Name, "/")+1:]
	}
	return "rollout.argoproj.io/" + report.Rollout[strings.LastIndex(report.Rollout, "/")+1:]
}

// Weight formats the weight of a Service in an object; "?" if it is unknown.
func Weight(object Object, service int) string {
	if object.Written == nil {
		return "?"
	}
	return strconv.FormatInt(object.Written[service], 10)
}
