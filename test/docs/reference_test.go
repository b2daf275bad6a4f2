package docs

import (
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

// The pages with generated parts.
const (
	configurationPage = "docs/reference/configuration.md"
	flagsPage         = "docs/reference/flags.md"
)

var update = flag.Bool("update", false, "write the generated parts of these pages")

// TestReferenceIsGenerated compares the generated parts of the pages with their sources: the CRD, the constants of the
// API's package, and --help of the programs.
func TestReferenceIsGenerated(t *testing.T) {
	folder := t.TempDir()
	programs := []string{"rollouts-plugin-kedify", "gatewayapi-plugin", "interceptor", "scaler", "agent"}
	if err := program.Build(t.Context(), folder, "v0.0.0", programs...); err != nil {
		t.Fatal(err)
	}
	helps := map[string]string{}
	for _, name := range programs {
		helps["flags of "+name] = flags(t.Context(), t, filepath.Join(folder, name))
	}
	compareParts(t, configurationPage, map[string]string{"fields": fields(t), "annotations": annotations(t)})
	compareParts(t, flagsPage, helps)
}

// compareParts compares the generated parts of a page with their sources. With -update it writes them.
func compareParts(t *testing.T, name string, parts map[string]string) {
	t.Helper()
	page := text(t, name)
	wanted := page
	for title, part := range parts {
		begin, end := "<!-- "+title+" -->\n", "<!-- end -->"
		before, rest, hasBegin := strings.Cut(wanted, begin)
		_, after, ends := strings.Cut(rest, end)
		if !hasBegin || !ends {
			t.Fatalf("the page has no %q", begin)
		}
		wanted = before + begin + "\n" + part + "\n" + end + after
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root, name), []byte(wanted), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(wanted, page); diff != "" {
		t.Errorf("%s differs from its sources: run `make reference` (-sources +page):\n%s", name, diff)
	}
}

// schema is the documented part of a schema in a CRD.
type schema struct {
	Type, Description, Format string
	Default                   any
	Properties                map[string]schema
	Items                     *schema
	Required                  []string
	Rules                     []struct{ Message string } `json:"x-kubernetes-validations"`
}

// fields returns the table of the fields of an HTTPScaledObject's spec.
func fields(t *testing.T) string {
	t.Helper()
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema schema `json:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text(t, "config/crd/http.keda.sh_httpscaledobjects.yaml")), &definition); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| Field | Type | Default | Applied by | |\n|---|---|---|---|---|\n")
	unused := fieldReaders()
	rows(t, &table, unused, "spec", definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
	for path := range unused {
		t.Errorf("the CRD has no field %s: remove it from fieldReaders", path)
	}
	return table.String()
}

// fieldReaders returns who applies each field of the spec. TestEveryFieldHasAReader of internal/controlplane finds a
// field that no one reads.
func fieldReaders() map[string]string {
	const (
		interceptor, none = "interceptor", "–, condition `ScalingFieldsApplied`"
		routes            = "interceptor, agent"
	)
	return map[string]string{
		"spec.coldStartTimeoutFailoverRef.port": interceptor, "spec.coldStartTimeoutFailoverRef.portName": interceptor,
		"spec.coldStartTimeoutFailoverRef.service": interceptor, "spec.coldStartTimeoutFailoverRef.timeoutSeconds": interceptor,
		"spec.headers[].name": routes, "spec.headers[].value": routes,
		"spec.headers[].valueRegex": routes, "spec.headers[].valueWildcard": routes, "spec.hosts": routes, "spec.pathPrefixes": routes,
		"spec.initialCooldownPeriod": none, "spec.scaledownPeriod": none, "spec.targetPendingRequests": none,
		"spec.replicas.max": none, "spec.replicas.min": interceptor,
		"spec.scaleTargetRef.apiVersion": "scaler; interceptor (status)", "spec.scaleTargetRef.kind": "scaler; interceptor (status)",
		"spec.scaleTargetRef.name": "scaler; interceptor (status)", "spec.scaleTargetRef.port": routes,
		"spec.scaleTargetRef.portName": routes, "spec.scaleTargetRef.service": routes + ", router",
		"spec.scalingMetric.concurrency.targetValue": none + " if it is not 100",
		"spec.scalingMetric.requestRate.targetValue": none + " if it is not 100",
		"spec.scalingMetric.requestRate.granularity": interceptor,
		"spec.scalingMetric.requestRate.window":      interceptor,
		"spec.timeouts.conditionWait":                interceptor,
		"spec.timeouts.responseHeader":               interceptor,
	}
}

// rows writes the rows of the fields below a path, and removes them from readers.
func rows(t *testing.T, table *strings.Builder, readers map[string]string, path string, parent schema) {
	t.Helper()
	for _, name := range sortedKeys(parent.Properties) {
		field, fieldPath := parent.Properties[name], path+"."+name
		kind := field.Type
		if field.Items != nil {
			kind = "list of " + field.Items.Type + "s"
		}
		value := ""
		switch {
		case field.Default != nil:
			value = fmt.Sprintf("`%v`", field.Default)
		case slices.Contains(parent.Required, name):
			value = "required"
		}
		says := strings.Fields(field.Description)
		for _, rule := range field.Rules {
			says = append(says, "Checked:", rule.Message+".")
		}
		reader, isKnown := readers[fieldPath]
		delete(readers, fieldPath)
		hasFields := len(field.Properties) > 0 || field.Items != nil && len(field.Items.Properties) > 0
		if isKnown == hasFields {
			t.Errorf("%s: add each field without fields of its own to fieldReaders, and no other one", fieldPath)
		}
		fmt.Fprintf(table, "| `%s` | %s | %s | %s | %s |\n", fieldPath, kind, value, reader,
			escaped(strings.Join(says, " ")))
		rows(t, table, readers, fieldPath, field)
		if field.Items != nil {
			rows(t, table, readers, fieldPath+"[]", *field.Items)
		}
	}
}

// escaped returns a text as a cell of a table.
func escaped(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;").Replace(text)
}

func sortedKeys(properties map[string]schema) []string {
	var names []string
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// annotations returns the table of the annotations in the API's package.
func annotations(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(root, "api/http/v1alpha1")
	var table strings.Builder
	table.WriteString("| Annotation | |\n|---|---|\n")
	values := map[string]string{"AnnotationPrefix": "http.kedify.io/"}
	for _, name := range []string{"names.go", "zero.go", "routing.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			constant, ok := node.(*ast.ValueSpec)
			if !ok || len(constant.Values) != 1 ||
				!regexp.MustCompile(`^(Annotation|Fleet|Healthcheck)`).MatchString(constant.Names[0].Name) {
				return true
			}
			value, doc := constantText(constant.Values[0], values), strings.Join(strings.Fields(constant.Doc.Text()), " ")
			values[constant.Names[0].Name] = value
			if !strings.Contains(value, "/") || strings.HasSuffix(value, "/") || doc == "" {
				return true
			}
			_, says, _ := strings.Cut(doc, " ")
			fmt.Fprintf(&table, "| `%s` | %s |\n", value, escaped(says))
			return true
		})
	}
	written := table.String()
	for name, value := range values {
		written = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(written, "`"+value+"`")
	}
	return written
}

// constantText returns the value of a string constant, which may consist of known ones.
func constantText(expression ast.Expr, known map[string]string) string {
	switch expression := expression.(type) {
	case *ast.BasicLit:
		value, _ := strconv.Unquote(expression.Value)
		return value
	case *ast.Ident:
		return known[expression.Name]
	case *ast.BinaryExpr:
		return constantText(expression.X, known) + constantText(expression.Y, known)
	default:
		return ""
	}
}

// flags returns the help of a program.
func flags(ctx context.Context, t *testing.T, binary string) string {
	t.Helper()
	help, err := exec.CommandContext(ctx, binary, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%s --help: %v\n%s", binary, err, help)
	}
	var shown strings.Builder
	for line := range strings.Lines(string(help)) {
		shown.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return "```text\n" + strings.TrimSpace(shown.String()) + "\n```"
}

// TestRouterKeysTable compares the table of keys with the router's error for an unknown key in
// docs/reference/errors.md, which the router's tests write.
func TestRouterKeysTable(t *testing.T) {
	list := regexp.MustCompile("has the unknown key [^`]*the keys are ([a-zA-Z, ]+)`").FindStringSubmatch(text(t,
		"docs/reference/errors.md"))
	if list == nil {
		t.Fatal("docs/reference/errors.md has no error that lists the keys")
	}
	_, section, _ := strings.Cut(text(t, configurationPage), "## The router kedify/http\n")
	section, _, _ = strings.Cut(section, "For the whole process")
	var shown []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(section, -1) {
		shown = append(shown, row[1])
	}
	slices.Sort(shown)
	if diff := cmp.Diff(regexp.MustCompile(`\w+(?:, | and |$)`).FindAllString(list[1],
		-1), shown, cmp.Comparer(func(a, b string) bool {
		return strings.TrimSuffix(strings.TrimSuffix(a, ", "),
			" and ") == strings.TrimSuffix(strings.TrimSuffix(b, ", "), " and ")
	})); diff != "" {
		t.Errorf("keys (-router +docs/reference/configuration.md):\n%s", diff)
	}
}
