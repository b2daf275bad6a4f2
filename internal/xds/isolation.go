package xds

// trialLimit bounds how many responses one isolation may cost. What was not
// cleared by then counts as refused. Finding k culprits among n takes about
// 2 k log2(n) responses, so the limit is met only when most of them are bad.
const trialLimit = 256

// isolation finds out which of several suspects a proxy refuses. They are tried
// in groups, one at a time; a group that is refused is halved, so what is left
// in the end was refused alone. Envoy's reasons are not read: their words are no
// interface.
//
// A suspect may have been refused only because another one had not been accepted
// yet, such as two virtual hosts that exchange a domain. Therefore those refused
// alone get another trial as long as others make progress.
type isolation struct {
	groups [][]string // to be tried, first to last
	trial  []string   // under way
	// doubted were refused alone.
	doubted []string
	// progress is true when a group was accepted since the doubted were refused.
	progress bool
	trials   int
}

// suspect adds names that were refused together and takes them apart.
func (i *isolation) suspect(names []string) {
	if len(names) == 1 {
		i.groups = append(i.groups, names)
		return
	}
	half := len(names) / 2
	i.groups = append(i.groups, names[:half:half], names[half:])
}

// next begins the next trial and returns its names; nil when all is found out.
func (i *isolation) next() []string {
	if len(i.groups) == 0 && i.progress {
		for n := range i.doubted {
			i.groups = append(i.groups, i.doubted[n:n+1:n+1])
		}
		i.doubted, i.progress = nil, false
	}
	if len(i.groups) == 0 || i.trials >= trialLimit {
		return nil
	}
	i.trials++
	i.trial, i.groups = i.groups[0], i.groups[1:]
	return i.trial
}

// skip ends a trial that has nothing to prove any more.
func (i *isolation) skip() {
	i.trials--
	i.trial = nil
}

// passed ends a trial that the proxy accepted.
func (i *isolation) passed() {
	i.progress = i.progress || len(i.doubted) > 0
	i.trial = nil
}

// failed ends a trial that the proxy refused. The halves of a group are tried
// next, before other groups, so that good ones need not wait for each other.
func (i *isolation) failed() {
	trial := i.trial
	i.trial = nil
	if len(trial) == 1 {
		i.doubted = append(i.doubted, trial[0])
		return
	}
	rest := i.groups
	i.groups = nil
	i.suspect(trial)
	i.groups = append(i.groups, rest...)
}

// untried returns every name that waits for a trial.
func (i *isolation) untried() []string {
	var names []string
	for _, group := range i.groups {
		names = append(names, group...)
	}
	return names
}
