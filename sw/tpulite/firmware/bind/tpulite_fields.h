/* Generated from tpulite.arch by scripts/gen_docs.py; run `make docs` after a change there. */
#ifndef TPULITE_FIELDS_H
#define TPULITE_FIELDS_H

#define TPULITE_TOKEN_MAX                63u
#define TPULITE_WAIT_BIT                 4u
#define TPULITE_SIGNAL_BIT               8u
#define TPULITE_PREFETCH_BIT             12u
#define TPULITE_OPCODE_LOAD              1u
#define TPULITE_OPCODE_STORE             2u
#define TPULITE_OPCODE_CONV              3u
#define TPULITE_OPCODE_VECTOR            4u
#define TPULITE_OPCODE_END               15u
#define TPULITE_ENGINE_LOAD              0u
#define TPULITE_ENGINE_STORE             1u
#define TPULITE_ENGINE_MXU               2u
#define TPULITE_ENGINE_VPU               3u
#define TPULITE_WINDOW_CONSTANTS         0u
#define TPULITE_WINDOW_INPUT             1u
#define TPULITE_WINDOW_OUTPUT            2u
#define TPULITE_WINDOW_SCRATCH           3u

/* Fields of commands: a STORE has those of a LOAD. */
#define TPULITE_LOAD_FLIP                {12, 1, 0, 0, 1, 0, 0}
#define TPULITE_LOAD_WINDOW              {13, 2, 0, 0, 1, 0, 0}
#define TPULITE_LOAD_OFFSET              {15, 32, 0, 0, 16, 0, 0}
#define TPULITE_LOAD_STRIDE              {47, 32, 0, 0, 16, 0, 0}
#define TPULITE_LOAD_LINES               {79, 12, 0, 1, 1, 0, 0}
#define TPULITE_LOAD_ROWS                {91, 15, 0, 1, 1, 0, 0}
#define TPULITE_LOAD_ROW                 {106, 14, 0, 0, 1, 0, 0}
#define TPULITE_LOAD_PITCH               {120, 14, 0, 0, 1, 0, 0}
#define TPULITE_VECTOR_OPERATION         {12, 3, 0, 0, 1, 228, 1}
#define TPULITE_VECTOR_ROWS              {15, 11, 0, 1, 1, 0, 0}
#define TPULITE_VECTOR_COLUMNS           {26, 11, 0, 1, 1, 0, 0}
#define TPULITE_VECTOR_A_ROW             {37, 14, 0, 0, 1, 0, 0}
#define TPULITE_VECTOR_A_PITCH           {51, 14, 0, 0, 1, 0, 0}
#define TPULITE_VECTOR_A_STEP            {65, 14, 0, 0, 1, 0, 0}
#define TPULITE_VECTOR_WINDOW_ROWS       {79, 8, 0, 1, 1, 0, 0}
#define TPULITE_VECTOR_WINDOW_COLUMNS    {87, 8, 0, 1, 1, 0, 0}
#define TPULITE_VECTOR_WINDOW_PITCH      {95, 14, 0, 0, 1, 0, 0}
#define TPULITE_VECTOR_B_ROW             {109, 14, 0, 0, 1, 0, 0}
#define TPULITE_VECTOR_B_PITCH           {123, 14, 0, 0, 1, 0, 0}
#define TPULITE_VECTOR_B_STEP            {137, 14, 0, 0, 1, 0, 0}
#define TPULITE_VECTOR_OUT_ROW           {151, 14, 0, 0, 1, 0, 0}
#define TPULITE_VECTOR_OUT_PITCH         {165, 14, 0, 0, 1, 0, 0}
#define TPULITE_VECTOR_OUT_STEP          {179, 14, 0, 0, 1, 0, 0}
#define TPULITE_VECTOR_PARAM_ROW         {193, 14, 0, 0, 1, 0, 0}
#define TPULITE_VECTOR_LOW               {207, 8, 1, 0, 1, 0, 0}
#define TPULITE_VECTOR_HIGH              {215, 8, 1, 0, 1, 0, 0}
#define TPULITE_VECTOR_TAIL              {223, 5, 0, 0, 1, 0, 0}
#define TPULITE_CONV_PREFETCH            {12, 1, 0, 0, 1, 0, 0}
#define TPULITE_CONV_DEPTHWISE           {13, 1, 0, 0, 1, 0, 0}
#define TPULITE_CONV_INNER               {14, 1, 0, 0, 1, 0, 0}
#define TPULITE_CONV_BYTE_STEP           {15, 5, 0, 0, 1, 0, 0}
#define TPULITE_CONV_INT4                {20, 1, 0, 0, 1, 0, 0}
#define TPULITE_CONV_ROWS                {21, 11, 0, 1, 1, 0, 0}
#define TPULITE_CONV_COLUMNS             {32, 11, 0, 1, 1, 0, 0}
#define TPULITE_CONV_STRIDE_Y            {43, 4, 0, 1, 1, 0, 0}
#define TPULITE_CONV_STRIDE_X            {47, 4, 0, 1, 1, 0, 0}
#define TPULITE_CONV_ACT_ROW             {51, 14, 0, 0, 1, 0, 0}
#define TPULITE_CONV_ACT_PITCH           {65, 14, 0, 0, 1, 0, 0}
#define TPULITE_CONV_ACT_BLOCK_PITCH     {79, 14, 0, 0, 1, 0, 0}
#define TPULITE_CONV_HEIGHT              {93, 11, 0, 1, 1, 0, 0}
#define TPULITE_CONV_WIDTH               {104, 11, 0, 1, 1, 0, 0}
#define TPULITE_CONV_PAD_TOP             {115, 5, 0, 0, 1, 0, 0}
#define TPULITE_CONV_PAD_LEFT            {120, 5, 0, 0, 1, 0, 0}
#define TPULITE_CONV_PAD                 {125, 8, 1, 0, 1, 0, 0}
#define TPULITE_CONV_BLOCKS              {133, 11, 0, 1, 1, 0, 0}
#define TPULITE_CONV_KERNEL_ROWS         {144, 4, 0, 1, 1, 0, 0}
#define TPULITE_CONV_KERNEL_COLUMNS      {148, 4, 0, 1, 1, 0, 0}
#define TPULITE_CONV_DILATION_Y          {152, 4, 0, 1, 1, 0, 0}
#define TPULITE_CONV_DILATION_X          {156, 4, 0, 1, 1, 0, 0}
#define TPULITE_CONV_WEIGHT_ROW          {160, 14, 0, 0, 1, 0, 0}
#define TPULITE_CONV_WEIGHT_ZERO_POINT   {174, 8, 1, 0, 1, 0, 0}
#define TPULITE_CONV_ACC_ROW             {182, 10, 0, 0, 1, 0, 0}
#define TPULITE_CONV_ACCUMULATE          {192, 1, 0, 0, 1, 0, 0}
#define TPULITE_CONV_DRAIN               {193, 2, 0, 0, 1, 0, 0}
#define TPULITE_CONV_RECORD_FORM         {195, 1, 0, 0, 1, 0, 0}
#define TPULITE_CONV_RECORD_ROW          {196, 14, 0, 0, 1, 0, 0}
#define TPULITE_CONV_OUT_ROW             {210, 14, 0, 0, 1, 0, 0}
#define TPULITE_CONV_OUT_PITCH           {224, 14, 0, 0, 1, 0, 0}
#define TPULITE_CONV_OUT_STEP            {238, 14, 0, 0, 1, 0, 0}
#define TPULITE_CONV_INT16               {252, 1, 0, 0, 1, 0, 0}
#define TPULITE_CONV_TRANSPOSED          {253, 1, 0, 0, 1, 0, 0}
#define TPULITE_CONV_DIGIT               {254, 2, 0, 0, 1, 0, 0}

#endif
