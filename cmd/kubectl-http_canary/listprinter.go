package main

import (
	"fmt"
	"io"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
)

// listPrinter prints all canaries or, if watching, those that differ from the previous call.
type listPrinter struct {
	*listOptions

	out, problems io.Writer
	shown         map[types.NamespacedName]split.Entry // while watching
	widths        output.Widths
	isStarted     bool // print was called
	hasRows       bool // a row was printed
}

// newListPrinter returns a listPrinter that writes canaries to out, and everything else to problems.
func newListPrinter(options *listOptions, out, problems io.Writer) *listPrinter {
	return &listPrinter{
		listOptions: options, out: out, problems: problems, shown: map[types.NamespacedName]split.Entry{},
	}
}

// print prints the canaries of cluster.
func (p *listPrinter) print(cluster *facts.Facts) error {
	isFirst := !p.isStarted
	p.isStarted = true
	all := split.List(cluster)
	if p.watch {
		all = p.changes(all)
	}
	switch {
	case p.watch && p.format == output.JSON:
		for _, entry := range all {
			if err := output.PrintLine(p.out, "Canary", entry); err != nil {
				return err
			}
		}
		return nil
	case p.format.IsObject():
		return output.Print(p.out, p.format, "CanaryList", canaryList{Items: all})
	case len(all) > 0:
		table := split.ListTable{
			Format: p.format, HasHeaders: !p.noHeaders && !p.hasRows, HasNamespaces: p.isAll, Now: cluster.Now,
			Widths: &p.widths,
		}
		p.hasRows = true
		return table.Print(p.out, all)
	case isFirst:
		_, err := fmt.Fprintf(p.problems, "No Rollout uses a router of this project%s.\n", p.where())
		return err
	}
	return nil
}

// changes returns the canaries that differ from the previous call, in the order of the list, followed by those that are
// no longer in it.
func (p *listPrinter) changes(all []split.Entry) []split.Entry {
	changed := []split.Entry{}
	before := p.shown
	p.shown = map[types.NamespacedName]split.Entry{}
	for i := range all {
		key := all[i].Key()
		if last, isShown := before[key]; !isShown || !reflect.DeepEqual(last, all[i]) {
			changed = append(changed, all[i])
		}
		p.shown[key] = all[i]
		delete(before, key)
	}
	var removed []split.Entry
	for _, entry := range before {
		entry.Removed = true
		removed = append(removed, entry)
	}
	split.Sort(removed)
	return append(changed, removed...)
}
