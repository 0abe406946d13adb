//! An assembler for BPF (RFC 9669).

/// A BPF instruction: its code, registers, offset and immediate value.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    code: u8,
    /// The destination register in the low four bits, and the source register in the high four
    /// bits.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A register. Calls take arguments in `R1` to `R5` and return a value in `R0`. They preserve `R6`
/// to `R9`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Register {
    R0 = 0,
    R1 = 1,
    R2 = 2,
    R3 = 3,
    R4 = 4,
    R6 = 6,
    R7 = 7,
    R8 = 8,
    R9 = 9,
    /// Frame pointer: the end of the stack.
    Frame = 10,
}

/// Number of bytes that an instruction loads or stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// One byte.
    Byte = 0x10,
    /// Two bytes.
    Half = 0x08,
    /// Four bytes.
    Word = 0x00,
    /// Eight bytes.
    Double = 0x18,
}

/// Comparison of unsigned numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The numbers are equal.
    Equal = 0x10,
    /// The left number is greater.
    Greater = 0x20,
    /// The numbers are not equal.
    NotEqual = 0x50,
    /// The left number is less.
    Less = 0xa0,
}

/// A position in the program to which jumps refer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(usize);

/// Instruction classes (RFC 9669 §3).
const CLASS_LD: u8 = 0x00;
const CLASS_LDX: u8 = 0x01;
const CLASS_ST: u8 = 0x02;
const CLASS_STX: u8 = 0x03;
const CLASS_ALU: u8 = 0x04;
const CLASS_JMP: u8 = 0x05;
const CLASS_JMP32: u8 = 0x06;
const CLASS_ALU64: u8 = 0x07;
/// Flag of instructions whose operand is a register.
const SOURCE_REGISTER: u8 = 0x08;
/// Mode of instructions that load from memory or store to memory.
const MODE_MEMORY: u8 = 0x60;

/// A program under construction.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<Instruction>,
    /// Position of each label; `None` until it is known.
    labels: Vec<Option<usize>>,
    /// Position and label of each jump.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn push(
        &mut self,
        code: u8,
        target: Register,
        source: Option<Register>,
        offset: i16,
        immediate: i32,
    ) {
        let source = source.map_or(0, |register| register as u8);
        self.code.push(Instruction {
            code,
            registers: target as u8 | source << 4,
            offset,
            immediate,
        });
    }

    /// Creates a label that has no position yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Sets the position of a label to the next instruction.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// Appends `target = *(source + offset)`.
    pub fn load(&mut self, size: Size, target: Register, source: Register, offset: i16) {
        let code = CLASS_LDX | MODE_MEMORY | size as u8;
        self.push(code, target, Some(source), offset, 0);
    }

    /// Appends `*(target + offset) = source`.
    pub fn store(&mut self, size: Size, target: Register, offset: i16, source: Register) {
        let code = CLASS_STX | MODE_MEMORY | size as u8;
        self.push(code, target, Some(source), offset, 0);
    }

    /// Appends `*(target + offset) = value`.
    pub fn store_value(&mut self, size: Size, target: Register, offset: i16, value: i32) {
        let code = CLASS_ST | MODE_MEMORY | size as u8;
        self.push(code, target, None, offset, value);
    }

    /// Appends `target = source`.
    pub fn copy(&mut self, target: Register, source: Register) {
        let code = CLASS_ALU64 | SOURCE_REGISTER | 0xb0;
        self.push(code, target, Some(source), 0, 0);
    }

    /// Appends `target = value`, with sign extension to 64 bits.
    pub fn set(&mut self, target: Register, value: i32) {
        self.push(CLASS_ALU64 | 0xb0, target, None, 0, value);
    }

    /// Appends `target = value`, for a value of 64 bits.
    pub fn set_double(&mut self, target: Register, value: u64) {
        self.push(
            CLASS_LD | Size::Double as u8,
            target,
            None,
            0,
            value as u32 as i32,
        );
        self.push(0, Register::R0, None, 0, (value >> 32) as u32 as i32);
    }

    /// Appends an instruction that loads the address of a map, given its number
    /// ([`Map::number`](super::Map::number)).
    pub fn load_map(&mut self, target: Register, number: i32) {
        const MAP_DESCRIPTOR: u8 = 1;
        self.code.push(Instruction {
            code: CLASS_LD | Size::Double as u8,
            registers: target as u8 | MAP_DESCRIPTOR << 4,
            offset: 0,
            immediate: number,
        });
        self.push(0, Register::R0, None, 0, 0);
    }

    /// Appends `target += value`.
    pub fn add(&mut self, target: Register, value: i32) {
        self.push(CLASS_ALU64, target, None, 0, value);
    }

    /// Appends `target += source`.
    pub fn add_register(&mut self, target: Register, source: Register) {
        let code = CLASS_ALU64 | SOURCE_REGISTER;
        self.push(code, target, Some(source), 0, 0);
    }

    /// Appends `target -= source`.
    pub fn subtract(&mut self, target: Register, source: Register) {
        let code = CLASS_ALU64 | SOURCE_REGISTER | 0x10;
        self.push(code, target, Some(source), 0, 0);
    }

    /// Appends `target >>= bits`.
    pub fn shift_right(&mut self, target: Register, bits: i32) {
        self.push(CLASS_ALU64 | 0x70, target, None, 0, bits);
    }

    /// Appends `target ^= value`, computed in 32 bits.
    pub fn xor(&mut self, target: Register, value: i32) {
        self.push(CLASS_ALU | 0xa0, target, None, 0, value);
    }

    /// Appends `target &= value`, computed in 32 bits.
    pub fn and(&mut self, target: Register, value: i32) {
        self.push(CLASS_ALU | 0x50, target, None, 0, value);
    }

    /// Appends a conversion of the low 16, 32 or 64 bits between network and host byte order, which
    /// clears all other bits.
    pub fn swap_from_network(&mut self, target: Register, bits: i32) {
        self.push(CLASS_ALU | SOURCE_REGISTER | 0xd0, target, None, 0, bits);
    }

    /// Appends an unconditional jump.
    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(CLASS_JMP, Register::R0, None, 0, 0);
    }

    /// Appends a jump that is taken if the condition holds for the low 32 bits of a register and a
    /// number.
    pub fn jump_if(&mut self, register: Register, condition: Condition, value: u32, label: Label) {
        self.jumps.push((self.code.len(), label));
        let code = CLASS_JMP32 | condition as u8;
        self.push(code, register, None, 0, value as i32);
    }

    /// Appends a jump that is taken if all 64 bits of a register are zero.
    pub fn jump_if_zero(&mut self, register: Register, label: Label) {
        self.jumps.push((self.code.len(), label));
        let code = CLASS_JMP | Condition::Equal as u8;
        self.push(code, register, None, 0, 0);
    }

    /// Appends a jump that is taken if the condition holds for all 64 bits of two registers.
    pub fn jump_if_both(
        &mut self,
        left: Register,
        condition: Condition,
        right: Register,
        label: Label,
    ) {
        self.jumps.push((self.code.len(), label));
        let code = CLASS_JMP | SOURCE_REGISTER | condition as u8;
        self.push(code, left, Some(right), 0, 0);
    }

    /// Appends a call of a helper function of the kernel (bpf-helpers(7)).
    pub fn call(&mut self, helper: i32) {
        self.push(CLASS_JMP | 0x80, Register::R0, None, 0, helper);
    }

    /// Appends the end of the program, which returns `R0`.
    pub fn exit(&mut self) {
        self.push(CLASS_JMP | 0x90, Register::R0, None, 0, 0);
    }

    /// Returns the finished program; `None` if a jump is too far or its label has no position.
    pub fn finish(mut self) -> Option<Vec<Instruction>> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0]?;
            let distance = target as isize - at as isize - 1;
            self.code[at].offset = i16::try_from(distance).ok()?;
        }
        Some(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(assembler: Assembler) -> Vec<[u8; 8]> {
        let code = assembler.finish().unwrap();
        code.iter()
            .map(|it| {
                let mut bytes = [0; 8];
                bytes[0] = it.code;
                bytes[1] = it.registers;
                bytes[2..4].copy_from_slice(&it.offset.to_le_bytes());
                bytes[4..].copy_from_slice(&it.immediate.to_le_bytes());
                bytes
            })
            .collect()
    }

    /// Tests that instructions have the encodings of RFC 9669.
    #[test]
    fn instructions_are_encoded() {
        let mut it = Assembler::default();
        it.load(Size::Half, Register::R3, Register::R7, 12);
        it.swap_from_network(Register::R3, 16);
        it.store_value(Size::Word, Register::Frame, -8, -65536);
        it.set_double(Register::R2, 0x1122_3344_5566_7788);
        it.load_map(Register::R1, 5);
        it.call(51);
        it.exit();
        let expected = [
            [0x69, 0x73, 12, 0, 0, 0, 0, 0],
            [0xdc, 0x03, 0, 0, 16, 0, 0, 0],
            [0x62, 0x0a, 0xf8, 0xff, 0, 0, 0xff, 0xff],
            [0x18, 0x02, 0, 0, 0x88, 0x77, 0x66, 0x55],
            [0x00, 0x00, 0, 0, 0x44, 0x33, 0x22, 0x11],
            [0x18, 0x11, 0, 0, 5, 0, 0, 0],
            [0x00, 0x00, 0, 0, 0, 0, 0, 0],
            [0x85, 0x00, 0, 0, 51, 0, 0, 0],
            [0x95, 0x00, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(bytes(it), expected);
    }

    #[test]
    fn jumps_lead_to_their_labels() {
        let mut it = Assembler::default();
        let (back, ahead) = (it.label(), it.label());
        it.place(back);
        it.set(Register::R0, 0);
        it.jump_if(Register::R0, Condition::Greater, 9, ahead);
        it.jump_if_both(Register::R0, Condition::Less, Register::R1, back);
        it.place(ahead);
        it.exit();
        let code = bytes(it);
        assert_eq!(code[1], [0x26, 0, 1, 0, 9, 0, 0, 0]);
        assert_eq!(code[2], [0xad, 0x10, 0xfd, 0xff, 0, 0, 0, 0]);
    }

    #[test]
    fn a_missing_label_or_a_long_jump_is_refused() {
        let mut it = Assembler::default();
        let missing = it.label();
        it.jump(missing);
        assert_eq!(it.finish(), None);
        let mut it = Assembler::default();
        let far = it.label();
        it.jump(far);
        for _ in 0..40_000 {
            it.exit();
        }
        it.place(far);
        assert_eq!(it.finish(), None);
    }
}
