//! Tests of places and links in valid plans, and of messages about invalid ones.

use prony_load::CoreList;

use super::{Study, allocate};
use prony_plan::service::PlaceKind;
use prony_plan::topology::{AddressBlock, LinkLoss, LinkRate};

const PLAN: &str = r#"
baseline = { rate = "slow" }
[factors]
rate = [{ name = "slow", bits = "100Mbit" }, { name = "fast", bits = "1Gbit", flags = ["--to", "{{ app.address }}"] }]
[place.clients]
[place.front]
cores = "0"
[place.front.sysctl]
net.core.somaxconn = 4096
"net.ipv4.ip_local_port_range" = [2000, 60000]
[place.back]
[link.wan]
between = ["clients", "front"]
rate    = "{{ rate.bits }}"
[link.lan]
between   = ["back", "front"]
addresses = ["10.9.0.1", "10.9.0.2"]
[service.app]
command = ["app-server", "{{ app.address }}"]
place   = "back"
[service.lb]
command = ["web-server", "{{ lb.http.address }}", "{{ app.address }}", "{{ side.port }}", "{{ rate.flags }}"]
listen  = { http = "tcp" }
needs   = ["app", "side"]
place   = "front"
[service.side]
command = ["web-server", "{{ lb.http.address }}"]
place   = "front"
cores   = "1"
[load]
target = "lb"
place  = "clients"
source = ["10.50.0.0/16", "10.60.0.1-10.60.0.6"]
cores  = "1"
"#;

#[test]
fn a_variant_in_which_nothing_runs_in_a_place_gets_no_networks() {
    let study = Study::new();
    let plan = study
        .read(
            r#"
[factors]
path = [
    { name = "loopback", load = "native", servers = "native" },
    { name = "link", load = "clients", servers = "front" },
]
[place.clients]
[place.front]
[link.wan]
between = ["clients", "front"]
rate    = "100Mbit"
[service.app]
command = ["app-server", "{{ app.address }}"]
place   = "{{ path.servers }}"
[load]
target = "app"
place  = "{{ path.load }}"
"#,
        )
        .unwrap();
    assert!(plan.topology(0).unwrap().is_empty());
    let topology = plan.topology(1).unwrap();
    assert_eq!((topology.places.len(), topology.links.len()), (2, 1));
}

#[test]
fn each_viewer_reaches_the_others_over_its_own_link() {
    let study = Study::new();
    let plan = study.read(PLAN).unwrap();
    let topology = plan.topology(0).unwrap();
    let names: Vec<_> = topology
        .places
        .iter()
        .map(|place| place.name.as_str())
        .collect();
    assert_eq!(names, ["clients", "front", "back"]);
    let settings: Vec<_> = topology.places[1].settings.iter().collect();
    assert_eq!(settings[0].0, "net.core.somaxconn");
    assert_eq!(settings[1].1, "2000 60000");
    assert_eq!(topology.links[0].rate, Some(LinkRate::new(100_000_000)));
    assert_eq!(
        plan.topology(1).unwrap().links[0].rate,
        Some(LinkRate::new(1_000_000_000))
    );
    assert_eq!(topology.links[1].rate, None);
    assert_eq!(topology.address(1, 0).unwrap().to_string(), "10.213.0.2");
    assert_eq!(topology.address(1, 2).unwrap().to_string(), "10.9.0.2");
    let sources = &topology.places[0].sources;
    assert_eq!(
        sources.iter().map(AddressBlock::size).sum::<u64>(),
        65_536 + 6
    );

    let wanted = plan.allocations(0).unwrap();
    let place_of = |name: &str| wanted.iter().find(|w| w.service == name).unwrap().place;
    assert_eq!(
        [place_of("app"), place_of("lb")],
        [PlaceKind::Named(2), PlaceKind::Named(1)]
    );
    // Hosts assign ports. This test assigns them in start order, beginning with 8001.
    let resolved = plan.resolve(0, &allocate(&wanted)).unwrap();
    let spec = |name: &str| {
        let mut services = resolved.services.iter();
        &services
            .find(|service| service.spec.name == name)
            .unwrap()
            .spec
    };
    assert_eq!(
        spec("app").command[1],
        "0.0.0.0:8001",
        "itself, on every leg"
    );
    assert_eq!(spec("lb").command[1..3], ["0.0.0.0:8003", "10.9.0.1:8001"]);
    assert_eq!(spec("side").command[1], "127.0.0.1:8003", "the same place");
    assert_eq!(resolved.load.url, "http://10.213.0.2:8003/");
    assert_eq!(resolved.load.place, PlaceKind::Named(0));
    assert_eq!(
        (spec("lb").cores.as_slice(), spec("side").cores.as_slice()),
        (&[0][..], &[1][..])
    );
}

#[test]
fn the_loss_of_a_link_may_be_a_level() {
    let study = Study::new();
    let text = PLAN
        .replace("bits = \"100Mbit\"", "bits = \"100Mbit\", loss = \"0%\"")
        .replace("bits = \"1Gbit\"", "bits = \"1Gbit\", loss = \"0.5%\"")
        .replace("[link.lan]\n", "[link.lan]\nloss = \"{{ rate.loss }}\"\n");
    let plan = study.read(&text).unwrap();
    let losses = [0, 1].map(|variant| plan.topology(variant).unwrap().links[1].loss);
    assert_eq!(
        losses.map(|loss| loss.map(LinkLoss::per_million)),
        [Some(0), Some(5_000)]
    );
    assert_eq!(plan.topology(0).unwrap().links[0].loss, None);
}

#[test]
fn a_level_may_use_endpoints_that_only_some_services_reach() {
    // The load's templates never use rate.flags, which contains an endpoint that the load can't
    // reach.
    let study = Study::new();
    let plan = study.read(PLAN).unwrap();
    let resolved = plan
        .resolve(1, &allocate(&plan.allocations(1).unwrap()))
        .unwrap();
    let lb = resolved
        .services
        .iter()
        .find(|service| service.spec.name == "lb")
        .unwrap();
    assert_eq!(lb.spec.command[4..], ["--to", "10.9.0.1:8001"]);
}

#[test]
fn addresses_of_links_do_not_overlap_those_of_the_load() {
    let study = Study::new();
    let text = PLAN.replace("10.50.0.0/16", "10.213.0.0/17");
    let plan = study.read(&text).unwrap();
    let address = plan.topology(0).unwrap().address(1, 0).unwrap();
    assert_eq!(address.to_string(), "10.87.0.2");
}

#[test]
fn a_load_without_cores_gets_those_of_its_place() {
    let study = Study::new();
    let text = PLAN
        .replace("cores  = \"1\"\n", "")
        .replace("[place.clients]\n", "[place.clients]\ncores = \"0-1\"\n");
    let plan = study.read(&text).unwrap();
    let resolved = plan
        .resolve(0, &allocate(&plan.allocations(0).unwrap()))
        .unwrap();
    assert_eq!(resolved.load.settings.cores, Some(CoreList(vec![0, 1])));
}

#[test]
fn a_load_over_af_xdp_refuses_a_link_that_drops_packets() {
    let study = Study::new();
    let lossy = |loss: &str| {
        let loss = format!("loss = \"{loss}\"\n[link.lan]\n");
        let load = "[load]\ninterface = \"wan\"\nio = \"xdp\"\n";
        let text = PLAN
            .replace("[link.lan]\n", &loss)
            .replace("[load]\n", load);
        study.read(&text)
    };
    lossy("0%").unwrap();
    let error = lossy("1%").unwrap_err().to_string();
    assert!(
        error.contains("loss on link \"wan\" has no effect on a load with io = \"xdp\""),
        "{error}"
    );
}

/// Each case: text of [`PLAN`] to replace, the replacement, and a message that results. `@` stands
/// for `plan.toml:` and the line of the replacement.
const CASES: &[(&str, &str, &str)] = &[
    (
        "place  = \"clients\"",
        "place  = \"client\"",
        "@: place of [load] is \"client\" (did you mean \"clients\"?)",
    ),
    (
        "place  = \"clients\"",
        "interface = \"lan\"\nio = \"xdp\"\nplace  = \"clients\"",
        "@: interface \"lan\" is not a link of the load's place (its interfaces are named after its \
         links: wan)",
    ),
    (
        "place   = \"back\"",
        "place   = \"bakc\"",
        "@: place of service \"app\" is \"bakc\" (did you mean \"back\"?)",
    ),
    (
        "between = [\"clients\", \"front\"]",
        "between = [\"clients\", \"font\"]",
        "@: link \"wan\" joins \"font\", which is not a place of this plan (did you mean \"front\"?)",
    ),
    (
        "between = [\"clients\", \"front\"]",
        "between = [\"clients\"]",
        "@: link \"wan\" must join two places, not 1",
    ),
    (
        "between = [\"clients\", \"front\"]",
        "between = [\"front\", \"front\"]",
        "@: link \"wan\" joins place \"front\" to itself",
    ),
    (
        "between   = [\"back\", \"front\"]",
        "between   = [\"front\", \"clients\"]",
        "@: link \"lan\" is a second link between places \"front\" and \"clients\" (remove one, because only one of them would carry traffic)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "rate    = \"fast\"",
        "@: rate of link \"wan\": \"fast\" is not a link rate (write it like 100Mbit or 1Gbit)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "burst   = \"64K\"",
        "@: burst of link \"wan\" has no effect without a rate (add rate = \"1Gbit\", or remove burst)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "speed   = \"1Gbit\"",
        "@: link \"wan\" has no key \"speed\" (known keys: between, rate, burst, latency, loss, addresses)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "loss    = \"60%\"",
        "@: loss on link \"wan\": \"60%\" is out of range (use 0% to 50%)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "loss    = 0.01",
        "@: loss on link \"wan\": \"0.01\" is not a percentage (write it like 1% or 0.1%)",
    ),
    (
        "addresses = [\"10.9.0.1\", \"10.9.0.2\"]",
        "addresses = [\"8.8.8.8\", \"10.9.0.2\"]",
        "@: addresses of link \"lan\" are not two private IPv4 addresses (give one for each place, \
         in the same order as in `between`, such as [\"10.1.0.1\", \"10.1.0.2\"])",
    ),
    (
        "addresses = [\"10.9.0.1\", \"10.9.0.2\"]",
        "addresses = [\"10.50.0.1\", \"10.9.0.2\"]",
        "@: link \"lan\": the load already uses 10.50.0.1",
    ),
    (
        "net.core.somaxconn = 4096",
        "vm.swappiness = 1",
        "@-1: place \"front\" can't have its own vm.swappiness: it would change the whole machine \
         (remove it, or set where_possible = true, which skips such settings and lists them in environment.json)",
    ),
    (
        "net.core.somaxconn = 4096",
        "\"../../etc\" = 1",
        "@: \"../../etc\" of place \"front\" is not the name of a kernel setting (write it with dots, such as \
         \"net.core.somaxconn\")",
    ),
    (
        "[load]",
        "[service.far]\nplace = \"clients\"\ncommand = [\"app-server\", \"{{ app.host }}\"]\n[load]",
        "@+2: no link leads from place \"clients\" to place \"back\", where service \"app\" runs (a place reaches only places to which it has a link)",
    ),
    (
        "[load]",
        "[service.far]\nplace = \"clients\"\ncommand = [\"app-server\", \"{{ app.host ~ ':1' }}\"]\n[load]",
        "@+2: no link leads from place \"clients\" to place \"back\", where service \"app\" runs (a place reaches only places to which it has a link)",
    ),
    (
        "[load]",
        "[service.far]\nplace = \"clients\"\ncommand = [\"app-server\", \"--to={{ app.address }}\"]\n[load]",
        "@+2: no link leads from place \"clients\" to place \"back\", where service \"app\" runs (a place reaches only places to which it has a link)",
    ),
    (
        "[load]",
        "[service.far]\nplace = \"clients\"\ncommand = [\"app-server\", \"{{ [app.host] }}\"]\n[load]",
        "@+2: no link leads from place \"clients\" to place \"back\", where service \"app\" runs (a place reaches only places to which it has a link)",
    ),
    (
        "source = [\"10.50.0.0/16\", \"10.60.0.1-10.60.0.6\"]",
        "source = [\"fd00::1\"]",
        "@: source of [load]: \"fd00::1\" is not an IPv4 address (named places use IPv4 only)",
    ),
    (
        "[place.back]",
        "[place.native]\n[place.back]",
        "@: a place can't have the name \"native\", which is reserved (choose another name)",
    ),
    (
        "[link.lan]",
        "[link.a_name_of_many_letters]",
        "@: the name of link \"a_name_of_many_letters\" is too long (use at most 15 letters)",
    ),
];

#[test]
fn problems_have_their_lines() {
    let study = Study::new();
    for (from, to, said) in CASES {
        assert!(PLAN.contains(from), "{from}");
        let text = PLAN.replacen(from, to, 1);
        let line = text[..text.find(to).unwrap()].lines().count() + 1;
        let (offset, said) = match said.strip_prefix('@').unwrap() {
            rest if rest.starts_with(['+', '-']) => {
                let (offset, said) = rest.split_once(':').unwrap();
                (offset.parse::<isize>().unwrap(), format!(":{said}"))
            }
            rest => (0, rest.to_owned()),
        };
        let said = format!(
            "plan.toml:{}{said}",
            line.checked_add_signed(offset).unwrap()
        );
        let diagnostics = study.diagnostics(&text);
        assert!(
            diagnostics.contains(&said),
            "{to}:\n  {}\nnot\n  {said}",
            diagnostics.join("\n  ")
        );
    }
}

#[test]
fn a_load_that_cannot_reach_its_target_is_reported() {
    let study = Study::new();
    let text = PLAN
        .replace("place  = \"clients\"\n", "")
        .replace("source = [\"10.50.0.0/16\", \"10.60.0.1-10.60.0.6\"]\n", "");
    let diagnostics = study.diagnostics(&text);
    assert!(
        diagnostics.iter().any(|line| line.contains("the load can't reach its target: no link leads from place \"native\" to place \"front\"")),
        "{diagnostics:?}"
    );
}

#[test]
fn machine_settings_are_omitted_if_the_plan_says_so() {
    let study = Study::new();
    let text = PLAN.replace("[place.front]\n", "[place.front]\nwhere_possible = true\n");
    let text = text.replace("net.core.somaxconn = 4096", "vm.swappiness = 1");
    let plan = study.read(&text).unwrap();
    let place = &plan.topology(0).unwrap().places[1];
    assert!(place.where_possible && place.settings.contains_key("vm.swappiness"));
}
