/* Generated from tpulite.arch by scripts/gen_docs.py; run `make docs` after a change there. */
#ifndef TPULITE_REGS_H
#define TPULITE_REGS_H

/* Byte offsets of the registers */
#define TPULITE_ID                       0x0u /* The letters TPUL. */
#define TPULITE_VERSION                  0x4u /* Version of this contract. */
#define TPULITE_CONFIG_HASH              0x8u /* Hash of the configuration that was built. */
#define TPULITE_CONTROL                  0xCu /* START, STOP, RESET. An illegal request answers SLVERR. */
#define TPULITE_STATUS                   0x10u /* State of the chip. */
#define TPULITE_IRQ_ENABLE               0x14u /* Which interrupts drive the line. */
#define TPULITE_IRQ_STATUS               0x18u /* Pending interrupts; write one to clear. */
#define TPULITE_WATCHDOG                 0x1Cu /* Cycles without any progress that are a fault; 0: never. */
#define TPULITE_PROGRAM_LOW              0x20u /* Address of the first command, a multiple of 16. */
#define TPULITE_PROGRAM_HIGH             0x24u /* Its upper half. */
#define TPULITE_PROGRAM_LENGTH           0x28u /* Commands in the program. */
#define TPULITE_ERROR_CODE               0x30u /* Why the chip stopped; the first fault counts. */
#define TPULITE_ERROR_INDEX              0x34u /* Index of the command at fault. */
#define TPULITE_ERROR_LOW                0x38u /* Address at fault. */
#define TPULITE_ERROR_HIGH               0x3Cu /* Its upper half. */
#define TPULITE_WINDOW0_LOW              0x40u /* Address of window 0, a multiple of 16. */
#define TPULITE_WINDOW0_HIGH             0x44u /* Its upper half. */
#define TPULITE_WINDOW0_SIZE             0x48u /* Its bytes, a multiple of 16. */
#define TPULITE_WINDOW0_PERMISSION       0x4Cu /* Who may use it: READ, WRITE. */
#define TPULITE_WINDOW1_LOW              0x50u /* Address of window 1, a multiple of 16. */
#define TPULITE_WINDOW1_HIGH             0x54u /* Its upper half. */
#define TPULITE_WINDOW1_SIZE             0x58u /* Its bytes, a multiple of 16. */
#define TPULITE_WINDOW1_PERMISSION       0x5Cu /* Who may use it: READ, WRITE. */
#define TPULITE_WINDOW2_LOW              0x60u /* Address of window 2, a multiple of 16. */
#define TPULITE_WINDOW2_HIGH             0x64u /* Its upper half. */
#define TPULITE_WINDOW2_SIZE             0x68u /* Its bytes, a multiple of 16. */
#define TPULITE_WINDOW2_PERMISSION       0x6Cu /* Who may use it: READ, WRITE. */
#define TPULITE_WINDOW3_LOW              0x70u /* Address of window 3, a multiple of 16. */
#define TPULITE_WINDOW3_HIGH             0x74u /* Its upper half. */
#define TPULITE_WINDOW3_SIZE             0x78u /* Its bytes, a multiple of 16. */
#define TPULITE_WINDOW3_PERMISSION       0x7Cu /* Who may use it: READ, WRITE. */
#define TPULITE_CYCLES                   0x100u /* Cycles from START to the interrupt. */
#define TPULITE_CONFLICTS                0x104u /* Requests to the unified buffer that waited, summed over cycles. */
#define TPULITE_READ_BEATS               0x108u /* Beats read from DRAM, commands included. */
#define TPULITE_WRITE_BEATS              0x10Cu /* Beats written to DRAM. */
#define TPULITE_LOAD_IDLE                0x120u /* Cycles in which LOAD was in state IDLE. */
#define TPULITE_LOAD_BUSY                0x124u /* Cycles in which LOAD was in state BUSY. */
#define TPULITE_LOAD_TOKEN               0x128u /* Cycles in which LOAD was in state TOKEN. */
#define TPULITE_LOAD_BUFFER              0x12Cu /* Cycles in which LOAD was in state BUFFER. */
#define TPULITE_LOAD_AXI                 0x130u /* Cycles in which LOAD was in state AXI. */
#define TPULITE_STORE_IDLE               0x140u /* Cycles in which STORE was in state IDLE. */
#define TPULITE_STORE_BUSY               0x144u /* Cycles in which STORE was in state BUSY. */
#define TPULITE_STORE_TOKEN              0x148u /* Cycles in which STORE was in state TOKEN. */
#define TPULITE_STORE_BUFFER             0x14Cu /* Cycles in which STORE was in state BUFFER. */
#define TPULITE_STORE_AXI                0x150u /* Cycles in which STORE was in state AXI. */
#define TPULITE_MXU_IDLE                 0x160u /* Cycles in which MXU was in state IDLE. */
#define TPULITE_MXU_BUSY                 0x164u /* Cycles in which MXU was in state BUSY. */
#define TPULITE_MXU_TOKEN                0x168u /* Cycles in which MXU was in state TOKEN. */
#define TPULITE_MXU_BUFFER               0x16Cu /* Cycles in which MXU was in state BUFFER. */
#define TPULITE_MXU_AXI                  0x170u /* Cycles in which MXU was in state AXI. */
#define TPULITE_VPU_IDLE                 0x180u /* Cycles in which VPU was in state IDLE. */
#define TPULITE_VPU_BUSY                 0x184u /* Cycles in which VPU was in state BUSY. */
#define TPULITE_VPU_TOKEN                0x188u /* Cycles in which VPU was in state TOKEN. */
#define TPULITE_VPU_BUFFER               0x18Cu /* Cycles in which VPU was in state BUFFER. */
#define TPULITE_VPU_AXI                  0x190u /* Cycles in which VPU was in state AXI. */

/* Other constants for drivers */
#define TPULITE_ID_VALUE                 0x5450554Cu /* Value of ID. */
#define TPULITE_VERSION_VALUE            0x1u /* Value of VERSION. */
#define TPULITE_WINDOWS                  0x4u /* DRAM windows. */
#define TPULITE_WINDOW_STRIDE            0x10u /* Distance between the registers of two windows. */
#define TPULITE_COMMAND_BYTES            0x20u /* Bytes of a command. */
#define TPULITE_BEAT_BYTES               0x10u /* Alignment of programs and windows. */
#define TPULITE_RECORD_BYTES             0x10u /* Bytes of a channel record. */

/* Control: Bits of CONTROL; a write of one does it. */
#define TPULITE_CONTROL_START            0x1u /* run the program; legal when IDLE */
#define TPULITE_CONTROL_STOP             0x2u /* stop cleanly, as after a fault; legal when RUNNING */
#define TPULITE_CONTROL_RESET            0x4u /* return to IDLE; legal when IDLE or QUIESCED */

/* RunState: State of the chip, in STATUS. */
#define TPULITE_RUNSTATE_IDLE            0x0u /* ready for a program; after END as well */
#define TPULITE_RUNSTATE_RUNNING         0x1u /* executing a program */
#define TPULITE_RUNSTATE_STOPPING        0x2u /* after a fault or STOP: no new requests; waits for outstanding ones */
#define TPULITE_RUNSTATE_QUIESCED        0x3u /* stopped; a soft reset leads back to IDLE */
#define TPULITE_RUNSTATE_HUNG            0x4u /* the memory did not answer while stopping; only a full reset helps */

/* Interrupt: Bits of IRQ_STATUS and IRQ_ENABLE. */
#define TPULITE_INTERRUPT_DONE           0x1u /* END was reached */
#define TPULITE_INTERRUPT_FAULT          0x2u /* the chip is QUIESCED or HUNG */

/* Fault: Why the chip stopped, in ERROR_CODE. ERROR_ADDRESS holds what the text says. */
#define TPULITE_FAULT_NONE               0x0u /* no fault */
#define TPULITE_FAULT_OPCODE             0x1u /* unknown opcode; address: of the command, in DRAM */
#define TPULITE_FAULT_FIELD              0x2u /* illegal field or unused bit; address: of the command, in DRAM */
#define TPULITE_FAULT_WINDOW             0x3u /* burst outside its window or not permitted; address: of the burst, in DRAM */
#define TPULITE_FAULT_BUFFER             0x4u /* row outside the unified buffer or the accumulators; address: the row */
#define TPULITE_FAULT_READ               0x5u /* AXI error answering LOAD; address: of the burst, in DRAM */
#define TPULITE_FAULT_WRITE              0x6u /* AXI error answering STORE; address: of the burst, in DRAM */
#define TPULITE_FAULT_FETCH              0x7u /* AXI error answering command fetch; address: of the command, in DRAM */
#define TPULITE_FAULT_WATCHDOG           0x8u /* no progress for WATCHDOG cycles; address: 0 */
#define TPULITE_FAULT_OVERRUN            0x9u /* the program has no END; address: of its end, in DRAM */
#define TPULITE_FAULT_RECORD             0xAu /* channel record with a rounding that this chip lacks; address: its row */
#define TPULITE_FAULT_STOPPED            0xBu /* stopped by the CPU; address: 0 */

/* Permission: Bits of a window's PERMISSION. */
#define TPULITE_PERMISSION_READ          0x1u
#define TPULITE_PERMISSION_WRITE         0x2u

/* EngineState: What an engine does in a cycle; exactly one of them, so that the counters sum to CYCLES. */
#define TPULITE_ENGINESTATE_IDLE         0x0u /* no command */
#define TPULITE_ENGINESTATE_BUSY         0x1u /* working */
#define TPULITE_ENGINESTATE_TOKEN        0x2u /* waiting for a token */
#define TPULITE_ENGINESTATE_BUFFER       0x3u /* stalled on the unified buffer */
#define TPULITE_ENGINESTATE_AXI          0x4u /* stalled on AXI */

#endif
