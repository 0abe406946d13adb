//! Declaration of a setting: everything that the table states about it.

/// Declaration of one setting. Flags, plan keys, messages of agents, help, the plan reference and
/// the checks of contradictions follow from it.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Key in a plan, such as `no_keepalive`. The flag has the same name with `-` for `_`.
    pub key: &'static str,
    /// Group under whose heading help lists the flag.
    pub group: &'static str,
    /// Form of the value.
    pub kind: ValueKind,
    /// Meaning, as a phrase without a period.
    pub meaning: &'static str,
    /// Default, as a value or in words; empty if the setting is off by default.
    pub default: &'static str,
    /// An example value in TOML; empty if the kind says enough.
    pub example: &'static str,
    /// Name of the value in help, unless it follows from the kind.
    pub placeholder: Option<&'static str>,
    /// Short flag.
    pub short: Option<char>,
    /// A short flag of another tool that is accepted, too.
    pub other_short: Option<char>,
    /// A long flag of another tool that is accepted, too.
    pub alias: Option<&'static str>,
    /// True if help says that the flag may be repeated.
    pub repeatable: bool,
    /// Value of a flag without a value.
    pub if_omitted: Option<&'static str>,
    /// Environment variable that turns the switch on.
    pub environment: Option<&'static str>,
    /// Settings that can't be combined with this one, each with the reason and what to do instead,
    /// if that isn't obvious.
    pub excludes: &'static [(&'static str, &'static str)],
    /// Setting without which this one has no effect.
    pub needs: Option<&'static str>,
    /// True if help doesn't list the flag, because the setting is for plans.
    pub plan_only: bool,
}

/// Form of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// On or off.
    Switch,
    /// A whole number above zero, such as `20k`.
    Count,
    /// A whole number.
    Number,
    /// A time, such as `500ms`.
    Time,
    /// A time above zero.
    PositiveTime,
    /// A number of bytes, such as `64K`.
    Size,
    /// A rate per second, which may change.
    Rate,
    /// Any text, or text with a syntax of its own.
    Text,
    /// Path of a file that the load reads.
    File,
    /// Path of a socket.
    SocketPath,
    /// One of these words, each with its meaning.
    Choice(&'static [(&'static str, &'static str)]),
    /// A version of TLS.
    TlsVersion,
    /// Numbers of cores.
    Cores,
    /// One value that is written as a list of numbers.
    Numbers,
    /// Several values, separated by commas.
    List,
    /// Several values, none of which is split.
    Texts,
    /// Header fields.
    Headers,
    /// Tables that each describe a step of a journey.
    Steps,
}

impl Setting {
    pub(super) const fn new(
        key: &'static str,
        group: &'static str,
        kind: ValueKind,
        meaning: &'static str,
    ) -> Setting {
        Setting {
            key,
            group,
            kind,
            meaning,
            default: "",
            example: "",
            placeholder: None,
            short: None,
            other_short: None,
            alias: None,
            repeatable: false,
            if_omitted: None,
            environment: None,
            excludes: &[],
            needs: None,
            plan_only: false,
        }
    }

    pub(super) const fn default(mut self, default: &'static str) -> Setting {
        self.default = default;
        self
    }

    pub(super) const fn example(mut self, example: &'static str) -> Setting {
        self.example = example;
        self
    }

    pub(super) const fn placeholder(mut self, placeholder: &'static str) -> Setting {
        self.placeholder = Some(placeholder);
        self
    }

    pub(super) const fn short(mut self, short: char) -> Setting {
        self.short = Some(short);
        self
    }

    pub(super) const fn other_short(mut self, short: char) -> Setting {
        self.other_short = Some(short);
        self
    }

    pub(super) const fn alias(mut self, alias: &'static str) -> Setting {
        self.alias = Some(alias);
        self
    }

    pub(super) const fn repeatable(mut self) -> Setting {
        self.repeatable = true;
        self
    }

    pub(super) const fn if_omitted(mut self, value: &'static str) -> Setting {
        self.if_omitted = Some(value);
        self
    }

    pub(super) const fn environment(mut self, variable: &'static str) -> Setting {
        self.environment = Some(variable);
        self
    }

    pub(super) const fn plan_only(mut self) -> Setting {
        self.plan_only = true;
        self
    }

    pub(super) const fn excludes(
        mut self,
        settings: &'static [(&'static str, &'static str)],
    ) -> Setting {
        self.excludes = settings;
        self
    }

    pub(super) const fn needs(mut self, setting: &'static str) -> Setting {
        self.needs = Some(setting);
        self
    }
}
