#include "tpulite.h"

static uint32_t read_register(const tpulite_chip *chip, uint32_t offset)
{
    return chip->read(chip->context, offset);
}

static void write_register(const tpulite_chip *chip, uint32_t offset, uint32_t value)
{
    chip->write(chip->context, offset, value);
}

/* The upper half of an address follows the lower one. */
static void write_address(const tpulite_chip *chip, uint32_t offset, uint64_t address)
{
    write_register(chip, offset, (uint32_t)address);
    write_register(chip, offset + 4, (uint32_t)(address >> 32));
}

tpulite_status tpulite_identify(const tpulite_chip *chip, uint32_t config_hash)
{
    if (read_register(chip, TPULITE_ID) != TPULITE_ID_VALUE)
        return TPULITE_NO_CHIP;
    if (read_register(chip, TPULITE_VERSION) != TPULITE_VERSION_VALUE)
        return TPULITE_OTHER_CHIP;
    if (read_register(chip, TPULITE_CONFIG_HASH) != config_hash)
        return TPULITE_OTHER_CHIP;
    return TPULITE_OK;
}

void tpulite_start(const tpulite_chip *chip, const tpulite_job *job)
{
    write_address(chip, TPULITE_PROGRAM_LOW, job->address);
    write_register(chip, TPULITE_PROGRAM_LENGTH, job->length);
    for (uint32_t i = 0; i < TPULITE_WINDOWS; i++) {
        const tpulite_window *window = &job->windows[i];
        uint32_t at = TPULITE_WINDOW_STRIDE * i;
        write_address(chip, TPULITE_WINDOW0_LOW + at, window->base);
        write_register(chip, TPULITE_WINDOW0_SIZE + at, window->size);
        write_register(chip, TPULITE_WINDOW0_PERMISSION + at, window->permission);
    }
    write_register(chip, TPULITE_WATCHDOG, job->watchdog);
    write_register(chip, TPULITE_IRQ_ENABLE, TPULITE_INTERRUPT_DONE | TPULITE_INTERRUPT_FAULT);
    write_register(chip, TPULITE_CONTROL, TPULITE_CONTROL_START);
}

tpulite_status tpulite_wait(const tpulite_chip *chip, uint32_t polls)
{
    for (; polls; polls--) {
        if (read_register(chip, TPULITE_IRQ_STATUS))
            return TPULITE_OK;
    }
    return TPULITE_TIMEOUT;
}

void tpulite_finish(const tpulite_chip *chip, tpulite_outcome *outcome)
{
    uint32_t pending = read_register(chip, TPULITE_IRQ_STATUS);
    write_register(chip, TPULITE_IRQ_STATUS, pending);
    outcome->fault = TPULITE_FAULT_NONE;
    outcome->index = 0;
    outcome->address = 0;
    outcome->hung = 0;
    if (pending & TPULITE_INTERRUPT_FAULT) {
        uint64_t high = read_register(chip, TPULITE_ERROR_HIGH);
        outcome->fault = read_register(chip, TPULITE_ERROR_CODE);
        outcome->index = read_register(chip, TPULITE_ERROR_INDEX);
        outcome->address = high << 32 | read_register(chip, TPULITE_ERROR_LOW);
        outcome->hung = read_register(chip, TPULITE_STATUS) == TPULITE_RUNSTATE_HUNG;
    }
}

tpulite_status tpulite_run(const tpulite_chip *chip, const tpulite_job *job, uint32_t polls,
                           tpulite_outcome *outcome)
{
    tpulite_start(chip, job);
    tpulite_status status = tpulite_wait(chip, polls);
    if (status == TPULITE_OK)
        tpulite_finish(chip, outcome);
    return status;
}

tpulite_status tpulite_soft_reset(const tpulite_chip *chip)
{
    write_register(chip, TPULITE_CONTROL, TPULITE_CONTROL_RESET);
    if (read_register(chip, TPULITE_STATUS) != TPULITE_RUNSTATE_IDLE)
        return TPULITE_NOT_QUIESCED;
    return TPULITE_OK;
}
