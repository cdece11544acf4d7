package restate

import "strings"

// The lexicon is closed and small on purpose: a pair of wordings stands here
// only if exchanging one for the other never changes whether a claim holds. What
// is left out (like and love, plan and intend, should and must, use and prefer)
// is left out for that reason.
//
// In the tables a|b means either and x? means optional; articles are gone and
// "are", "am" and "were" are "is" and "was" by the time they are applied.

// frames are what echo loops put before a claim without claiming anything.
const frames = `
as i|we|you previously|already? noted|mentioned|said|stated|discussed|recorded|stored|remembered earlier|before|previously|above? ,?
as noted|mentioned|stated|discussed|recorded|recalled|stored|said earlier|before|previously|above|already? ,?
as previously|already noted|mentioned|stated|discussed|recorded|recalled|stored ,?
as i|we recall|remember ,?
i|we also? recall|remember|know that?
according to my|our|the|stored? memory|memories|notes|records ,?
according to our|my|the|an|a? earlier|previous|past|prior conversation|conversations|session|sessions|chat|chats|notes ,?
based on my|our|the? memory|memories|notes ,?
based on my|our|the|an|a? earlier|previous|past|prior conversation|conversations|session|sessions|chat|chats ,?
from my? memory ,|:
from my|our|the|an|a? earlier|previous|past|prior conversation|conversations|session|sessions|chat|chats ,|:
in my|our|the|an|a earlier|previous|past|prior conversation|session|chat ,|:
in earlier|previous|past conversations|sessions ,
per my|our? memory|notes ,|:?
memory|note|remember|reminder|recall|recalled|memo|fyi|memory-note :
stored|saved|recalled|existing|previous memory|fact|note :
for the? record|reference ,|:
note|remember|recall that
please remember|note that
keep|bear in mind that
it is|was known|recorded|noted|remembered|stored|recalled|mentioned that
my? memory|notes says|say|shows|show|indicates|indicate that
i|we have noted|stored|recorded|remembered that
it has been noted|mentioned|recorded that
just? a? reminder that|:
to recap|reiterate|repeat|summarize|restate ,|:
in summary|short|brief ,
once? again ,
also|additionally|furthermore|moreover|indeed|basically|so|ok|okay|well|and ,
( noted|recorded|saved|mentioned|recalled|memory|remembered|stored|from memory? )
( as noted|mentioned earlier|before )
`

// attributions are frames that name the user as the source. A restatement may
// add one; one that drops it says more than the user did.
const attributions = `
the? user|customer has? previously|earlier|already|also? mentioned|said|stated|noted|indicated|shared earlier|before|previously? that
the? user has? previously|earlier? told me|us earlier|before? that
the? user has? expressed that
`

// trailers are frames at the end.
const trailers = `
,? as i|we previously|already? noted|mentioned|said|stated|discussed|recorded earlier|before|previously|above?
,? as noted|mentioned|stated|discussed|recorded|recalled|said earlier|before|previously|above?
,? as previously|already noted|mentioned|stated|discussed|recorded
,? according to my|our? memory|notes
,? per my|our? memory|notes
( noted|recorded|saved|mentioned|recalled|remembered|stored|from memory? )
( as noted|mentioned earlier|before )
`

// rewrites maps wordings to one of them, tried longest first.
const rewrites = `
prefers|favors|favours using                        = prefers
prefers|favors|favours to use                       = prefers
favors|favours                                      = prefers
prefers|favors|favours working with                 = prefers
prefers|favors|favours to work with                 = prefers
has preference for                                  = prefers
has expressed|stated|shown|indicated preference for = prefers
would rather use                                    = prefers
prefer to use                                       = prefer
prefer using                                        = prefer
favor|favour                                        = prefer
favorite|favourite|go-to                            = preferred
enjoys                                              = likes
likes to use|using                                  = likes
is fond of                                          = likes
rather than                                         = over
instead of                                          = instead-of

resides|dwells in                                   = lives in
is living|residing in                               = lives in
makes their|his|her home in                         = lives in
has their|his|her home in                           = lives in
is resident of                                      = lives in
is based|situated                                   = is located
is located|situated at                              = is at
is located|situated on                              = is on
is headquartered in                                 = 's headquarters is located in
has its headquarters in                             = 's headquarters is located in
headquarters is in                                  = headquarters is located in
can be found at                                     = is at
can be found on                                     = is on
can be found in                                     = is located in
home is in                                          = home is
is where user lives                                 = is user 's home
place|city of residence                             = residence

works|working for|at                                = works for
is working for|at                                   = works for
is employed by|at|with                              = works for
is employee of|at                                   = works for
is employed as                                      = works as
is working as                                       = works as
profession|occupation                               = job
is reporting to                                     = reports to
boss|supervisor                                     = manager
is studying                                         = studies
relocated                                           = moved
began                                               = started
begins                                              = starts
begin                                               = start

e-mail|email|mail address                           = email
e-mail                                              = email
telephone|phone number                              = phone
telephone                                           = phone
can be reached|contacted by|via|at email at         = 's email is
can be reached|contacted by|via|at phone at         = 's phone is
is reachable by|via email at                        = 's email is
is reachable by|via phone at                        = 's phone is
date of birth                                       = birthday
birth date|day                                      = birthday
birthdate                                           = birthday
was born on                                         = 's birthday is
called by                                           = called by
called                                              = named
goes by name                                        = is named

uses|utilizes|utilises                              = uses
makes use of                                        = uses
make use of                                         = use
utilize|utilise                                     = use
utilized|utilised                                   = used
purchased                                           = bought
purchases                                           = buys
purchase                                            = buy
possesses                                           = has
has got                                             = has
assists                                             = helps
assist                                              = help
obtains                                             = gets
obtained                                            = got
suffers from                                        = has
is set|configured to                                = is
is set|configured at                                = is
is configured|set as                                = is
amounts to                                          = is
is equal to                                         = is
equals                                              = is
equal to                                            = is
is listening on port                                = listens on port
is saved|kept|held|persisted in                     = is stored in
is hosted at                                        = is hosted on
is turned|switched on                               = is enabled
is turned|switched off                              = is disabled
turned|switched off                                 = disabled
turned|switched on                                  = enabled
forbidden                                           = prohibited
forbids                                             = prohibits
permitted                                           = allowed
permits                                             = allows
permit                                              = allow
compulsory|obligatory                               = mandatory
is mandatory                                        = is required
is needed                                           = is required
requires|needs                                      = requires
took place                                          = was held
takes|take place                                    = is held
is scheduled for|on                                 = is scheduled for
expires                                             = ends
expired                                             = ended
is made up of                                       = consists of

has|have to                                         = must
needs|need to                                       = must
is required|obliged|obligated to                    = must
is able to                                          = can
wants|wishes to                                     = wants to
would like to                                       = wants to
is planning to                                      = plans to
decided to                                          = decided to
made decision to                                    = decided to
makes decision to                                   = decides to
has intention to                                    = intends to
is intending to                                     = intends to
anybody                                             = anyone
everybody                                           = everyone
somebody                                            = someone
at least                                            = at-least
no|not less|fewer than                              = at-least
minimum of                                          = at-least
at most                                             = at-most
no|not more|greater than                            = at-most
maximum of                                          = at-most
no longer                                           = no-longer
not any longer                                      = no-longer
not anymore                                         = no-longer
used to                                             = used-to
prior to                                            = before
in advance of                                       = before
subsequent to                                       = after
due to                                              = because-of
because|owing of|to                                 = because-of
with regard|respect to                              = regarding
concerning                                          = regarding
in order to                                         = to
at present                                          = currently
at moment                                           = currently
right now                                           = currently
presently                                           = currently
previously                                          = formerly

color|colour                                        = color
colors|colours                                      = colors
documentation|docs                                  = docs
repository|repo                                     = repository
repositories|repos                                  = repositories
configuration|config                                = configuration
production|prod                                     = production
database|db                                         = database
databases|dbs                                       = databases
environment|env                                     = environment
application|app                                     = app
applications|apps                                   = apps
information|info                                    = information
maximum|max                                         = maximum
minimum|min                                         = minimum
bicycle|bike                                        = bike
bicycles|bikes                                      = bikes
automobile|car                                      = car
automobiles|cars                                    = cars
film|movie                                          = movie
films|movies                                        = movies
firm                                                = company
firms                                               = companies
shop|store                                          = store
shops|stores                                        = stores
apartment|flat                                      = apartment
vacation|holiday                                    = vacation
mom|mum                                             = mother
dad                                                 = father
kids                                                = children
kid                                                 = child
fridge                                              = refrigerator
stand-up                                            = standup
capital city                                        = capital
left-hand                                           = left
right-hand                                          = right
purchase|purchasing order                           = purchase order
organisation                                        = organization
organisations                                       = organizations
theatre                                             = theater
centre                                              = center
licence                                             = license
behaviour                                           = behavior
catalogue                                           = catalog
programme                                           = program
grey                                                = gray
cancelled                                           = canceled
travelling                                          = traveling
analyse                                             = analyze
organise                                            = organize
organises                                           = organizes
text|code|source editor                             = editor
im|messaging app                                    = messenger
messaging|chat app|application|tool|client          = messenger
instant messenger                                   = messenger
web browser                                         = browser
programming|coding language                         = language
in length                                           = long
in size                                             = big
in height                                           = tall
`

// hyphenated are compounds that are also written as one word, or that are not
// read as their parts.
var hyphenated = map[string]string{
	"e-mail": "email", "e-mails": "emails", "go-to": "go-to", "stand-up": "standup", "left-hand": "left-hand", "web-site": "website",
	"data-base": "database", "on-line": "online", "co-operate": "cooperate",
}

// categories lists the category nouns a preference statement may add or drop
// ("prefers Vim", "prefers Vim as editor"), each with the things that are of it
// beyond doubt. The first line holds for anything.
var categories = closed(`
	*: choice option pick preference favorite
	editor tool app software program: vim neovim emacs nano helix vscode
	browser tool app software program: firefox chromium brave vivaldi
	messenger tool app service: telegram whatsapp threema
	shell tool: zsh fish bash
	language: python go rust javascript typescript kotlin haskell
	database tool: postgresql postgres mysql sqlite mariadb redis mongodb
	color colour: red green blue yellow purple black white pink teal
	drink beverage: tea coffee espresso water beer wine
	theme mode setting: dark-mode light-mode
	system os platform: linux windows macos ubuntu debian fedora
	tool platform service: github gitlab slack trello asana jira
	language: english french german spanish italian portuguese japanese chinese korean
	pet animal: dogs cats
`)

// kin are relations in which "A's Y is called X" and "A's Y is X" say the same
// of a named X.
var kin = set("dog cat pet horse parrot hamster rabbit sister brother mother father wife husband spouse partner son daughter child boss manager friend cousin uncle aunt neighbour neighbor")

// ownAttributes may stand alone in "Email: x" and then speak of the user.
var ownAttributes = set("name email phone birthday job employer residence location birthplace hometown pronouns nationality")

// elided are the verbs that may open a note about the user with the subject
// left out ("Prefers Vim").
var elided = set("prefers likes lives works uses speaks owns dislikes hates has wants studies")

// prepositions open a phrase; they are content, since they carry the role.
var prepositions = set("at in on from to with for by during via through under over into onto of after before until till since near without within between among against across behind beside below above outside inside around about regarding than as per toward towards upon off out up down because-of instead-of except unlike despite")

var qualifiers = set("only always never sometimes often usually rarely seldom mostly all some most many few several any each every both either more less fewer least much at-least at-most about more-than less-than formerly used-to currently no-longer already still yet just almost nearly exactly approximately probably possibly perhaps maybe definitely certainly clearly strongly very really too quite so also even especially particularly generally typically normally except unless until enough half mainly partly fully completely entirely previously originally initially eventually now then")

var modals = set("may might must should can could will would shall ought need wants want plans intends hopes hope expects tries allowed prohibited")

var negations = set("not no never none nobody nothing neither nor without no-longer n't hardly barely")

var conjunctions = set("and or but nor yet so because although though while whereas if unless when whenever once who which whose whom where that whether")

// confirming words claim that somebody checked.
var confirming = []string{"confirm", "verif", "validat", "prove", "proof", "corroborat", "certif", "attest", "authenticat", "guarante", "undoubted", "indisputabl", "double-check", "fact-check", "definite", "certain", "undeniabl", "established"}

// barriers end a noun phrase in the templates.
var barriers = union(modals, negations, conjunctions, set(`is was be been being has have had does do did prefers prefer preferred likes lives works uses requires named , : = ; -- ( ) ? . " used-to while`))

// structural are the words that rules take for grammar.
var structural = union(prepositions, conjunctions, set("is was are were be been has have had does do did of named best most every each last next this once twice today tomorrow yesterday tonight noon midday midnight half quarter dozen per it what there"))

// speech are verbs after which a phrase may belong to the inner clause.
var speech = set("said says say told tells thinks thought believes believed claims claimed reports reported states stated asked asks knows knew hopes hoped heard announced wrote about regarding that who which when if and or but not only because planned plans wants")

// caseless are acronyms whose letters are also written small.
var caseless = set("api json url ssh html css sql yaml xml http https pdf csv gpu cpu usb vpn wifi vim db tcp udp dns faq ceo cto am pm ok user the a an i memory note")

// ambiguous are words that are a name with a capital and something else
// without. For these the letter case has to agree.
var ambiguous = set("us it who may march will mark polish turkey china apple apples windows go rust swift java python ruby slack discord notion signal chrome edge word teams outlook bill rose jack rob art grace hope faith joy drew pat sue dawn amber ivy lily daisy frank earnest august april june summer autumn amazon oracle shell target gap visa mercury mars saturn jordan chad chile georgia cuba hamburg nice reading bath cork mobile phoenix orange dove tide aids pin cat sap gin fig lisp basic pascal scheme ada eagle atom sublime brackets fish safari brave opera nano helix linear monday confluence jasmine victoria virginia carol robin bob gene miles max chase chuck guy hunter mason parker taylor tyler cooper fisher baker smith cook king queen prince duke bishop pope page gates jobs ford lincoln dodge ram focus fiesta golf polo beetle puma jaguar lotus seat mini smart acorn arc bear things spark flink storm kafka docker ant maven gradle make pandas flask express next nest react angular vue meteor ember backbone rails django spring hibernate struts zoom meet duo messenger word excel access publisher project teams pages numbers keynote numbers")

// verbs are the verbs whose passive is turned into the active. Irregular ones
// give past and participle.
const verbs = `
acquire administer approve assign attach author award build:built:built buy:bought:bought call cancel choose:chose:chosen
complete control create cover define deliver deploy design develop direct discover edit employ enforce establish
file finance found fund generate give:gave:given handle hire host identify implement install introduce invent issue lead:led:led
launch maintain make:made:made manage monitor name offer operate order organize own paint pay:paid:paid perform plan:planned:planned
post prefer:preferred:preferred prepare process produce propose protect provide publish receive record release replace report request
review run:ran:run schedule sell:sold:sold send:sent:sent serve sign sponsor store submit supply support teach:taught:taught
trigger update use validate verify visit win:won:won write:wrote:written prohibit reject beat:beat:beaten defeat destroy
block audit test compile translate compose record chair coach supervise mentor train represent treat
`

type verb struct{ base, third, past string }

var participles = func() map[string]verb {
	m := make(map[string]verb)
	for f := range strings.FieldsSeq(verbs) {
		p := strings.Split(f, ":")
		v := verb{base: p[0], third: third(p[0])}
		pp := ""
		switch {
		case len(p) == 3:
			v.past, pp = p[1], p[2]
		case strings.HasSuffix(p[0], "e"):
			v.past = p[0] + "d"
		case strings.HasSuffix(p[0], "y") && !strings.HasSuffix(p[0], "oy"):
			v.past = p[0][:len(p[0])-1] + "ied"
		default:
			v.past = p[0] + "ed"
		}
		if pp == "" {
			pp = v.past
		}
		m[pp] = v
	}
	m["submitted"] = verb{"submit", "submits", "submitted"}
	m["controlled"] = verb{"control", "controls", "controlled"}
	m["read"] = verb{"read", "reads", "read-past"}
	delete(m, "submited")
	delete(m, "controled")
	return m
}()

// third gives the third person singular of a verb.
func third(base string) string {
	switch {
	case base == "have":
		return "has"
	case base == "is":
		return "is"
	case strings.HasSuffix(base, "y") && len(base) > 1 && !strings.ContainsRune("aeou", rune(base[len(base)-2])):
		return base[:len(base)-1] + "ies"
	case strings.HasSuffix(base, "s"), strings.HasSuffix(base, "x"), strings.HasSuffix(base, "ch"), strings.HasSuffix(base, "sh"), strings.HasSuffix(base, "o"):
		return base + "es"
	}
	return base + "s"
}

func union(sets ...map[string]bool) map[string]bool {
	m := make(map[string]bool)
	for _, s := range sets {
		for k := range s {
			m[k] = true
		}
	}
	return m
}

// closed reads "category ...: member ..." lines into member to categories.
func closed(s string) map[string]map[string]bool {
	m := make(map[string]map[string]bool)
	for line := range strings.Lines(s) {
		head, members, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		if head == "*" {
			head, members = members, head
		}
		for member := range strings.FieldsSeq(members) {
			if m[member] == nil {
				m[member] = make(map[string]bool)
			}
			for c := range strings.FieldsSeq(head) {
				m[member][c] = true
			}
		}
	}
	return m
}

// trie finds the longest phrase at a position.
type trie struct {
	next map[string]*trie
	end  bool
	out  []string
}

func (t *trie) add(lhs, out []string) {
	for _, w := range lhs {
		if t.next == nil {
			t.next = make(map[string]*trie)
		}
		n := t.next[w]
		if n == nil {
			n = new(trie)
			t.next[w] = n
		}
		t = n
	}
	if !t.end { // the first line wins
		t.end, t.out = true, out
	}
}

// longest gives the length of the longest phrase at the head of toks.
func (t *trie) longest(toks []token) (n int, out []string) {
	for i := range toks {
		if toks[i].quoted || toks[i].kind == name && !caseless[toks[i].key] {
			break
		}
		t = t.next[toks[i].key]
		if t == nil {
			break
		}
		if t.end {
			n, out = i+1, t.out
		}
	}
	return n, out
}

// expand writes out the alternatives of a pattern.
func expand(pattern string) [][]string {
	all := [][]string{nil}
	for w := range strings.FieldsSeq(pattern) {
		w, optional := strings.CutSuffix(w, "?")
		var next [][]string
		for _, a := range all {
			if optional {
				next = append(next, a)
			}
			for alt := range strings.SplitSeq(w, "|") {
				next = append(next, append(a[:len(a):len(a)], alt))
			}
		}
		all = next
	}
	return all
}

func phrases(tables ...string) *trie {
	t := new(trie)
	for _, tab := range tables {
		for line := range strings.Lines(tab) {
			lhs, rhs, _ := strings.Cut(line, " = ")
			if strings.TrimSpace(lhs) == "" {
				continue
			}
			out := strings.Fields(rhs)
			for _, l := range expand(lhs) {
				if len(l) > 0 {
					t.add(l, out)
				}
			}
		}
	}
	return t
}

var (
	frameTrie       = phrases(frames)
	attributionTrie = phrases(attributions)
	trailerTrie     = phrases(trailers)
	rewriteTrie     = phrases(rewrites)
)
