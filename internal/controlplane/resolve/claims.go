package resolve

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// site is a host in one fleet: what objects of other fleets ask for is another site.
type site struct {
	fleet model.Fleet
	host  model.Host
}

// siteOf is where a Route is.
func siteOf(route model.Route) site { return site{route.Fleet, route.Match.Host} }

// claims are what objects ask for of one site.
type claims struct {
	// claimed are the Routes that each object asks for, in the order of their Matches. Mostly there is one object.
	claimed []claim
	// granted are those that win, in the order of CompareRoutes, and byMatch the same in the order of their Matches.
	granted, byMatch []model.Route
}

// claim is what one object asks for.
type claim struct {
	owner  model.Key
	routes []model.Route
}

// claim sets what an object asks for, nothing when routes is empty. settle has to follow.
func (c *claims) claim(owner model.Key, routes []model.Route) {
	c.claimed = slices.DeleteFunc(c.claimed, func(each claim) bool { return each.owner == owner })
	if len(routes) > 0 {
		c.claimed = append(c.claimed, claim{owner, routes})
	}
}

// settle decides who gets what. It returns the objects whose lot may have changed, and says whether any Route did.
func (c *claims) settle() (concerned map[model.Key]struct{}, changed bool) {
	before := c.granted
	c.granted, c.byMatch = nil, nil
	if len(c.claimed) == 1 {
		c.granted = c.claimed[0].routes // Routes of one object have one order, whichever way they are compared.
		c.byMatch = c.granted
	} else if len(c.claimed) > 1 {
		var all []model.Route
		for _, each := range c.claimed {
			all = append(all, each.routes...)
		}
		slices.SortFunc(all, byMatchThenAge)
		c.byMatch = slices.Clip(slices.CompactFunc(all, func(a, b model.Route) bool { return a.Match.Compare(b.Match) == 0 }))
		c.granted = slices.SortedFunc(slices.Values(c.byMatch), model.CompareRoutes)
	}
	concerned = make(map[model.Key]struct{}, len(c.claimed))
	for _, each := range c.claimed {
		concerned[each.owner] = struct{}{}
	}
	for _, route := range before {
		concerned[route.Owner] = struct{}{}
	}
	return concerned, !slices.EqualFunc(before, c.granted, model.Route.Equal)
}

// winner returns the Route that a Match goes to. There is one for every Match that anybody claims.
func (c *claims) winner(match model.Match) (model.Route, bool) {
	at, found := slices.BinarySearchFunc(c.byMatch, match, func(route model.Route, match model.Match) int { return route.Match.Compare(match) })
	if !found {
		return model.Route{}, false
	}
	return c.byMatch[at], true
}

// divide divides the Routes of one object, which are in the order of their Matches, by site. The
// parts share their memory.
func divide(routes []model.Route) map[site][]model.Route {
	divided := make(map[site][]model.Route, 1)
	for first := 0; first < len(routes); {
		at, next := siteOf(routes[first]), first+1
		for next < len(routes) && siteOf(routes[next]) == at {
			next++
		}
		divided[at] = routes[first:next:next]
		first = next
	}
	return divided
}
