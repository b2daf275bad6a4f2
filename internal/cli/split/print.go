package split

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
)

// ListTable is how a list of canaries is printed.
type ListTable struct {
	// Format is Table; Wide, with the Services and the objects; or Name, as resource/name.
	Format output.Format
	// HasHeaders is true to print headers, HasNamespaces to print the column NAMESPACE.
	HasHeaders, HasNamespaces bool
	// Now is the time for the column AGE.
	Now time.Time
	// Widths are those of the rows before, see output.Rows.
	Widths *output.Widths
}

// Print prints canaries.
func (l *ListTable) Print(out io.Writer, all []Entry) error {
	if l.Format == output.Name {
		var text strings.Builder
		for i := range all {
			fmt.Fprintf(&text, "rollout.argoproj.io/%s\n", all[i].Name)
		}
		_, err := io.WriteString(out, text.String())
		return err
	}
	columns := output.Columns("NAME", "ROUTER", "STEP", "STABLE/CANARY", "WEIGHT", "VERIFIED", "PROXIES", "STATUS", "AGE",
		"SERVICES+", "OBJECTS+")
	if l.HasNamespaces {
		columns = append(output.Columns("NAMESPACE"), columns...)
	}
	table := output.Rows{Columns: columns, Widths: l.Widths}
	for i := range all {
		cells := all[i].cells(l.Now)
		if l.HasNamespaces {
			cells = append([]string{all[i].Namespace}, cells...)
		}
		table.Add(cells...)
	}
	return table.Print(out, l.Format, l.HasHeaders)
}

// cells returns the cells of an entry, except its namespace.
func (e *Entry) cells(now time.Time) []string {
	proxies := ""
	if e.Proxies != nil {
		proxies = ratio(e.Proxies.Acked, e.Proxies.Ready)
	}
	return []string{
		e.Name, e.Router, ratio(e.Step, e.Steps), ratio(e.StableEndpoints, e.CanaryEndpoints),
		strconv.FormatInt(e.Weight, 10), string(e.Verified), proxies, e.status(), age(e.Created, now),
		e.StableService + "," + e.CanaryService, strings.Join(e.Objects, ","),
	}
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
