//! Tests of places and links in valid plans, and of messages about invalid ones.

use std::time::Duration;

use prony_load::CoreList;

use super::{Study, allocate};
use prony_plan::service::PlaceKind;
use prony_plan::topology::{
    AddressBlock, EmulatorChoice, JitterDistribution, LinkRate, PacketShare,
};

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
        losses.map(|loss| loss.map(PacketShare::per_million)),
        [Some(0), Some(5_000)]
    );
    assert_eq!(plan.topology(0).unwrap().links[0].loss, None);
}

#[test]
fn the_delay_of_a_link_may_be_a_level() {
    let study = Study::new();
    let slow = "bits = \"100Mbit\", trip = \"0ms\", delay = [\"5ms\", \"15ms\"]";
    let fast = "bits = \"1Gbit\", trip = \"20ms\", delay = \"1.5ms\"";
    let text = PLAN
        .replace("bits = \"100Mbit\"", slow)
        .replace("bits = \"1Gbit\"", fast)
        .replace(
            "rate    = \"{{ rate.bits }}\"",
            "rate = \"1Gbit\"\nround_trip = \"{{ rate.trip }}\"\nreorder = \"1%\"\nduplicate = \"0.1%\"",
        )
        .replace(
            "[link.lan]\n",
            "[link.lan]\ndelay = \"{{ rate.delay }}\"\njitter = \"250us\"\ndistribution = \"normal\"\n\
             loss = \"1%\"\nloss_burst = 5\nemulator = \"relay\"\nrelay_core = 1\n",
        );
    let plan = study.read(&text).unwrap();
    let links = [0, 1].map(|variant| plan.topology(variant).unwrap().links);
    let us = Duration::from_micros;
    let wan = |variant: usize| links[variant][0].emulation.clone().unwrap();
    assert_eq!(wan(0).delays, [Duration::ZERO; 2]);
    assert!(
        links[0][0].has_wire_frames(),
        "levels differ only in their delay"
    );
    assert_eq!(wan(1).delays, [us(10_000); 2]);
    assert_eq!(wan(1).reorder.per_million(), 10_000);
    assert_eq!(wan(1).duplicate.per_million(), 1_000);
    let lan = [0, 1].map(|variant| links[variant][1].clone());
    let emulations = lan.clone().map(|link| link.emulation.unwrap());
    assert_eq!(emulations[0].delays, [us(5_000), us(15_000)]);
    assert_eq!(emulations[0].round_trip(), us(20_000));
    assert_eq!(emulations[1].delays, [us(1_500); 2]);
    assert_eq!(emulations[0].jitter, us(250));
    assert_eq!(emulations[0].distribution, JitterDistribution::Normal);
    assert_eq!(emulations[0].emulator, EmulatorChoice::Relay);
    assert_eq!(emulations[0].relay_core, Some(1));
    assert_eq!(lan[0].burst_loss(), Some((lan[0].loss.unwrap(), 5)));
    assert_eq!(lan[0].independent_loss(), None, "the relay loses packets");
}

#[test]
fn the_former_name_of_queue_is_accepted_with_a_note() {
    let study = Study::new();
    let rate = "rate    = \"{{ rate.bits }}\"";
    let read = |key: &str| study.read(&PLAN.replace(rate, &format!("{rate}\n{key} = \"50ms\"")));
    let (former, current) = (read("latency").unwrap(), read("queue").unwrap());
    let queue = |plan: &prony_plan::Plan| plan.topology(0).unwrap().links[0].rate.unwrap().queue;
    assert_eq!(queue(&former), Duration::from_millis(50));
    assert_eq!(queue(&current), queue(&former));
    let is_about_it = |note: &&String| note.contains("latency of link \"wan\" is now called queue");
    assert_eq!(former.notes.iter().filter(is_about_it).count(), 1);
    assert_eq!(current.notes.iter().filter(is_about_it).count(), 0);
}

#[test]
fn a_load_over_af_xdp_refuses_a_link_with_a_delay() {
    let study = Study::new();
    let text = PLAN
        .replace("[link.lan]\n", "round_trip = \"0ms\"\n[link.lan]\n")
        .replace("[load]\n", "[load]\ninterface = \"wan\"\nio = \"xdp\"\n");
    let error = study.read(&text).unwrap_err().to_string();
    assert!(
        error.contains("link \"wan\" can't have a delay for a load with io = \"xdp\""),
        "{error}"
    );
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
        "@: link \"wan\" has no key \"speed\" (known keys: between, rate, burst, queue, round_trip, delay, jitter, distribution, loss, loss_burst, reorder, duplicate, emulator, relay_core, addresses)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "queue   = \"50ms\"",
        "@: queue of link \"wan\" has no effect without a rate (add rate = \"1Gbit\", or remove queue)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "rate    = \"1Gbit\"\nqueue = \"20\"",
        "@+1: queue of link \"wan\" is not between 1ms and 10s (it is the longest time that a packet waits for the link; the time that packets travel is round_trip)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "rate    = \"1Gbit\"\nqueue = \"20ms\"\nlatency = \"20ms\"",
        "@+2: link \"wan\" has both queue and latency (remove latency, which is the former name of queue)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "round_trip = \"20\"",
        "@: round_trip of link \"wan\" is \"20\", without a unit (write round_trip = \"20ms\")",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "round_trip = \"-20ms\"",
        "@: round_trip of link \"wan\": \"-20ms\" is not a time; write it like 500ms, 30s or 1m30s",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "round_trip = \"20mbit\"",
        "@: round_trip of link \"wan\": \"20mbit\" is not a time; write it like 500ms, 30s or 1m30s",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "round_trip = \"21s\"",
        "@: round_trip of link \"wan\" is \"21s\", not 0ms to 20s",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "round_trip = \"20ms\"\ndelay = \"10ms\"",
        "@+1: link \"wan\" has both round_trip and delay (round_trip is the sum of both directions, and delay sets each of them; remove one)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "delay   = [\"1ms\", \"2ms\", \"3ms\"]",
        "@: delay of link \"wan\" has 3 times, not one or two (give one for both directions, or one for each, starting with the direction from the first place of `between` to the second)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "round_trip = \"20ms\"\njitter = \"11ms\"",
        "@+1: jitter of link \"wan\" exceeds its delay of 10ms in each direction (packets would arrive before they are sent; use a smaller jitter or a larger round_trip)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "round_trip = \"20ms\"\njitter = \"3ms\"\ndistribution = \"normal\"",
        "@+1: jitter of link \"wan\" exceeds a quarter of its delay of 10ms in each direction (it is the standard deviation, and some packets would arrive before they are sent; use a smaller jitter or a larger round_trip)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "round_trip = \"20ms\"\njitter = \"3ms\"\ndistribution = \"gauss\"",
        "@+2: distribution of link \"wan\" is \"gauss\" (one of: uniform, normal)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "round_trip = \"20ms\"\ndistribution = \"normal\"",
        "@+1: distribution of link \"wan\" has no effect without jitter (add jitter = \"2ms\", or remove distribution)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "round_trip = \"20ms\"\nloss_burst = 5",
        "@+1: loss_burst of link \"wan\" has no effect without loss (add loss = \"1%\", or remove loss_burst)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "loss = \"1%\"\nloss_burst = 0",
        "@+1: loss_burst of link \"wan\" is 0, not a whole number from 1 to 1000",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "reorder = \"1%\"",
        "@: reorder of link \"wan\" has no effect without a delay (packets overtake others by skipping the delay; add round_trip = \"20ms\")",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "duplicate = \"5\"",
        "@: duplicate of link \"wan\": \"5\" is not a percentage (write it like 1% or 0.1%)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "emulator = \"relay\"",
        "@: emulator of link \"wan\" has no effect without a delay (add round_trip = \"20ms\", or remove emulator)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "round_trip = \"20ms\"\nemulator = \"kernel\"",
        "@: links can't be emulated here: the kernel has no sch_netem",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "round_trip = \"20ms\"\nemulator = \"kernel\"\nrelay_core = 1",
        "@+2: relay_core of link \"wan\" has no effect with emulator = \"kernel\" (remove it, or use emulator = \"relay\")",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "round_trip = \"20ms\"\nrelay_core = \"0-1\"",
        "@+1: relay_core of link \"wan\" is not one core (a relay is one thread)",
    ),
    (
        "rate    = \"{{ rate.bits }}\"",
        "round_trip = \"20ms\"\nrelay_core = 99",
        "@+1: the relay of link \"wan\" uses core 99, which this machine lacks (it has cores 0 to 1)",
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
